// Package devices validates the kinds of resource.k8s.io: the devices that drivers offer, and the
// claims for them. It does not compile the expressions that select devices.
package devices
