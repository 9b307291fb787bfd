// Package podresources says how much a pod takes of a node and of a quota. Quota, scheduler and node
// agent ask it, so that they agree also while a pod is being resized.
package podresources
