// Package podresources computes how much a pod takes of a node and of a quota. Quota, scheduler and
// node agent share it, so that they agree even while a pod is being resized.
package podresources
