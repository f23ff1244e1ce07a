"""The image of Containerfile and the manifests of etc/kubernetes, as far as they can be run without a container program."""
