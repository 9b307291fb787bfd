// Package runtime is the node agent's view of a container runtime: sandboxes, containers and
// images over the Container Runtime Interface (CRI v1, gRPC on a unix socket), in plain types
// that know nothing of the wire.
//
// Everything that the agent must know again after it was killed rests in the runtime: the
// pod's identity and the attempt are labels and metadata of each sandbox and container
// (Kubernetes' own label keys), so that Sandboxes and Containers can be believed without any
// other record.
package runtime
