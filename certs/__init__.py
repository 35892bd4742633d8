"""Certificates for the webhook's own TLS, and their places in a cluster or a directory.

Knows nothing of the webhook that serves with them, and of no Kubernetes client: `secret` is given
the one request function that it needs.

    pki      make a CA and a leaf, and say why material cannot serve; pure
    secret   keep them in a Secret, and put the CA into the webhook configuration
    files    keep them in a directory, for a server without a cluster
    tls      the listening context, whose pair can change under way
"""
