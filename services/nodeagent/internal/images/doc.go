// Package images sees to it that a container's image is on the node before the container is
// made: pull policies, credentials from imagePullSecrets, a bound on pulls at once, back-off
// after failures, and the Events and reasons of waiting that Kubernetes' users know.
package images
