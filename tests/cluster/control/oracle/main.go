// Command oracle says what the kube-scheduler's own plugins make of a Pod on a cluster.
//
// It reads questions from stdin, one JSON object a line, and writes one line of answer to each: for every
// Pod asked about, which plugins refuse which node, and what each plugin scores the nodes that none refuses.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// question is a cluster and the Pods to place on it, each as if it were the only one.
type question struct {
	Nodes    []*v1.Node `json:"nodes"`
	Pods     []*v1.Pod  `json:"pods"`
	Incoming []*v1.Pod  `json:"incoming"`

	Namespaces             []*v1.Namespace             `json:"namespaces"`
	PersistentVolumes      []*v1.PersistentVolume      `json:"persistentVolumes"`
	PersistentVolumeClaims []*v1.PersistentVolumeClaim `json:"persistentVolumeClaims"`
	StorageClasses         []*storagev1.StorageClass   `json:"storageClasses"`
	Services               []*v1.Service               `json:"services"`
	ReplicaSets            []*appsv1.ReplicaSet        `json:"replicaSets"`
	StatefulSets           []*appsv1.StatefulSet       `json:"statefulSets"`
}

// answer is about one Pod. Scores are normalized, without the plugin's weight; a plugin that has nothing to
// say about the Pod is left out of them.
type answer struct {
	Refusals map[string]map[string][]string `json:"refusals"` // node, plugin, reasons
	Scores   map[string]map[string]int64    `json:"scores"`   // plugin, node
}

type reply struct {
	Weights map[string]int32 `json:"weights,omitempty"`
	Answers []answer         `json:"answers,omitempty"`
	Error   string           `json:"error,omitempty"`
}

func main() {
	klog.SetLogger(klog.Logger{}) // the zero Logger drops everything
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	scheduler, err := newScheduler(ctx)
	if err != nil {
		return err
	}
	questions := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := questions.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		text, err := json.Marshal(scheduler.reply(ctx, line))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
	}
}

func (s *scheduler) reply(ctx context.Context, line []byte) reply {
	var q question
	if err := json.Unmarshal(line, &q); err != nil {
		return reply{Error: err.Error()}
	}
	if err := s.load(&q); err != nil {
		return reply{Error: err.Error()}
	}
	answers := make([]answer, 0, len(q.Incoming))
	for _, pod := range q.Incoming {
		one, err := s.ask(ctx, pod)
		if err != nil {
			return reply{Error: fmt.Sprintf("pod %s/%s: %v", pod.Namespace, pod.Name, err)}
		}
		answers = append(answers, one)
	}
	return reply{Weights: s.weights, Answers: answers}
}
