package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// leftOut are plugins of the default profile that neither filter nor score, or that need what a question
// does not hold: claims of devices, CSI drivers, features that a kubelet declares, groups of Pods.
var leftOut = map[string]bool{
	names.SchedulingGates:      true,
	names.PrioritySort:         true,
	names.DefaultPreemption:    true,
	names.DefaultBinder:        true,
	names.DynamicResources:     true,
	names.NodeVolumeLimits:     true,
	names.NodeDeclaredFeatures: true,
	names.GangScheduling:       true,
}

// scheduler is the default profile's plugins over a cluster that is replaced with each question.
type scheduler struct {
	plugins  []fwk.Plugin
	weights  map[string]int32
	snapshot *internalcache.Snapshot
	listers  listers
}

// NodeInfos, StorageInfos and PodGroupStates make the scheduler the fwk.SharedLister of its plugins, which
// keep that for life, while the snapshot changes.
func (s *scheduler) NodeInfos() fwk.NodeInfoLister           { return s.snapshot.NodeInfos() }
func (s *scheduler) StorageInfos() fwk.StorageInfoLister     { return s.snapshot.StorageInfos() }
func (s *scheduler) PodGroupStates() fwk.PodGroupStateLister { return s.snapshot.PodGroupStates() }

func newScheduler(ctx context.Context) (*scheduler, error) {
	metrics.Register()
	configuration, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := configuration.Profiles[0]
	arguments := map[string]runtime.Object{}
	for _, plugin := range profile.PluginConfig {
		arguments[plugin.Name] = plugin.Args
	}
	// Nothing starts these informers: the questions fill their indexers.
	factory := informers.NewSharedInformerFactory(nil, 0)
	s := &scheduler{weights: map[string]int32{}, snapshot: internalcache.NewEmptySnapshot(), listers: newListers(factory)}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(s),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithParallelism(1))
	if err != nil {
		return nil, err
	}
	registry := plugins.NewInTreeRegistry()
	for _, enabled := range profile.Plugins.MultiPoint.Enabled {
		if leftOut[enabled.Name] {
			continue
		}
		plugin, err := registry[enabled.Name](ctx, arguments[enabled.Name], handle)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", enabled.Name, err)
		}
		s.plugins = append(s.plugins, plugin)
		if _, scores := plugin.(fwk.ScorePlugin); scores {
			s.weights[enabled.Name] = max(enabled.Weight, 1)
		}
	}
	return s, nil
}

// load makes the question's cluster the one that the plugins see.
func (s *scheduler) load(q *question) error {
	s.snapshot = internalcache.NewSnapshot(q.Pods, q.Nodes)
	return s.listers.replace(q)
}

// ask filters every node through every plugin, and scores those that none refuses.
func (s *scheduler) ask(ctx context.Context, pod *v1.Pod) (answer, error) {
	nodes, err := s.snapshot.NodeInfos().List()
	if err != nil {
		return answer{}, err
	}
	state := framework.NewCycleState()
	refusals := map[string]map[string][]string{}
	for _, plugin := range s.plugins {
		if err := filter(ctx, plugin, state, pod, nodes, refusals); err != nil {
			return answer{}, fmt.Errorf("%s: %w", plugin.Name(), err)
		}
	}
	feasible := make([]fwk.NodeInfo, 0, len(nodes))
	for _, node := range nodes {
		if len(refusals[node.Node().Name]) == 0 {
			feasible = append(feasible, node)
		}
	}
	scores := map[string]map[string]int64{}
	if len(feasible) == 0 {
		return answer{Refusals: refusals, Scores: scores}, nil
	}
	for _, plugin := range s.plugins {
		if err := score(ctx, plugin, state, pod, feasible, scores); err != nil {
			return answer{}, fmt.Errorf("%s: %w", plugin.Name(), err)
		}
	}
	return answer{Refusals: refusals, Scores: scores}, nil
}

func filter(ctx context.Context, plugin fwk.Plugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, refusals map[string]map[string][]string) error {
	refuse := func(node fwk.NodeInfo, reasons []string) {
		name := node.Node().Name
		if refusals[name] == nil {
			refusals[name] = map[string][]string{}
		}
		if refusals[name][plugin.Name()] == nil {
			refusals[name][plugin.Name()] = reasons
		}
	}
	if first, ok := plugin.(fwk.PreFilterPlugin); ok {
		result, status := first.PreFilter(ctx, state, pod, nodes)
		switch {
		case status.IsSkip():
			return nil
		case status.IsRejected():
			for _, node := range nodes {
				refuse(node, status.Reasons())
			}
			return nil
		case !status.IsSuccess():
			return status.AsError()
		}
		if !result.AllNodes() {
			for _, node := range nodes {
				if !result.NodeNames.Has(node.Node().Name) {
					refuse(node, []string{"not among the nodes that PreFilter named"})
				}
			}
		}
	}
	if each, ok := plugin.(fwk.FilterPlugin); ok {
		for _, node := range nodes {
			status := each.Filter(ctx, state, pod, node)
			if status.IsRejected() {
				refuse(node, status.Reasons())
			} else if !status.IsSuccess() {
				return status.AsError()
			}
		}
	}
	return nil
}

func score(ctx context.Context, plugin fwk.Plugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, scores map[string]map[string]int64) error {
	each, ok := plugin.(fwk.ScorePlugin)
	if !ok {
		return nil
	}
	if first, ok := plugin.(fwk.PreScorePlugin); ok {
		status := first.PreScore(ctx, state, pod, nodes)
		if status.IsSkip() {
			return nil
		}
		if !status.IsSuccess() {
			return status.AsError()
		}
	}
	list := make(fwk.NodeScoreList, 0, len(nodes))
	for _, node := range nodes {
		value, status := each.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			return status.AsError()
		}
		list = append(list, fwk.NodeScore{Name: node.Node().Name, Score: value})
	}
	if extensions := each.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(ctx, state, pod, list); !status.IsSuccess() {
			return status.AsError()
		}
	}
	own := make(map[string]int64, len(list))
	for _, one := range list {
		own[one.Name] = one.Score
	}
	scores[plugin.Name()] = own
	return nil
}

// listers are the indexers that the plugins read beside the snapshot.
type listers struct {
	namespaces, volumes, claims, classes, services, replicaSets, statefulSets cache.Indexer
}

func newListers(factory informers.SharedInformerFactory) listers {
	core, apps := factory.Core().V1(), factory.Apps().V1()
	return listers{
		namespaces:   core.Namespaces().Informer().GetIndexer(),
		volumes:      core.PersistentVolumes().Informer().GetIndexer(),
		claims:       core.PersistentVolumeClaims().Informer().GetIndexer(),
		classes:      factory.Storage().V1().StorageClasses().Informer().GetIndexer(),
		services:     core.Services().Informer().GetIndexer(),
		replicaSets:  apps.ReplicaSets().Informer().GetIndexer(),
		statefulSets: apps.StatefulSets().Informer().GetIndexer(),
	}
}

func (l listers) replace(q *question) error {
	for _, err := range []error{
		fill(l.namespaces, q.Namespaces),
		fill(l.volumes, q.PersistentVolumes),
		fill(l.claims, q.PersistentVolumeClaims),
		fill(l.classes, q.StorageClasses),
		fill(l.services, q.Services),
		fill(l.replicaSets, q.ReplicaSets),
		fill(l.statefulSets, q.StatefulSets),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func fill[T any](indexer cache.Indexer, objects []T) error {
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		items = append(items, object)
	}
	return indexer.Replace(items, "")
}
