// Package runtime is the node agent's view of a container runtime: sandboxes, containers and
// images. It speaks the Container Runtime Interface (CRI v1, gRPC on a unix socket) and exposes
// plain types that are independent of the wire format.
//
// Everything the agent must recover after a crash is stored in the runtime. The pod's identity and
// the attempt are labels and metadata of each sandbox and container (Kubernetes' own label keys).
// Sandboxes and Containers are therefore authoritative without any other record.
package runtime
