// Package podcache makes the informer of pods keep only what a controller reads, and what many pods have in common
// only once.
//
// Kept are the metadata but for managedFields and kubectl's last-applied configuration; of the spec all that decides
// about placement, quota, claims and names; of a container its name, ports, resources and restart policy; the volumes
// that name a claim, an ephemeral claim or storage which may be attached; and the status but for the images and the
// identities of containers.
//
// Dropped are environments, commands, images, probes, hooks, mounts and security contexts of containers, volumes that
// come from the API or from the node, image pull secrets, host aliases and DNS settings. Pods of one template share the
// rest of the spec, and their labels and annotations.
//
// A controller that writes a whole pod, or needs what is dropped, reads the pod from the API first.
package podcache
