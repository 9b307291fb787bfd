// Package standalone runs the whole plane in one process: an embedded etcd and an embedded NATS,
// the apiserver, the controllers, the scheduler and any number of node agents. `garboard up` starts
// it, and it is the only package that composes services.
//
// The services are the same as in separate processes and know nothing of each other. They
// communicate over HTTPS and NATS, which here happen to be in one process.
package standalone
