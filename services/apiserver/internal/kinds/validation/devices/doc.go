// Package devices checks what resource.k8s.io describes: the devices that drivers offer, and the
// claims on them. Expressions that select devices are not compiled.
package devices
