// Package images ensures that a container's image is on the node before the container is created.
// It implements pull policies, credentials from imagePullSecrets, a limit on parallel pulls,
// back-off after failures, and Kubernetes' Events and waiting reasons.
package images
