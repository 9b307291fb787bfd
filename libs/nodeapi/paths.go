package nodeapi

import (
	"maps"
	"net/url"
	"path"
)

// Verbs are the first parts of the paths at which a node agent serves what concerns one pod. They are those
// of the kubelet (kubernetes, pkg/kubelet/server).
const (
	ContainerLogs = "containerLogs"
	Exec          = "exec"
	Attach        = "attach"
	PortForward   = "portForward"
	// Dial upgrades the connection to one to a port of the pod, whose bytes are passed on as they are. The
	// kubelet has nothing like it: its apiserver needs a route to every pod.
	Dial = "dial"
)

// Port is the parameter of the query of Dial, a number. DialProtocol is the protocol that a request to dial
// asks to upgrade to.
const (
	Port         = "port"
	DialProtocol = "tcp"
)

// UID is the parameter of a query that names the pod by its UID, so that another pod of its name does not
// answer.
const UID = "uid"

// Target names a container of a pod, or a pod if Container is empty.
type Target struct {
	Namespace, Pod, UID, Container string
}

// URL returns where an apiserver finds verb for a target at the agent of its node, over the bus. The query
// is that of the options of the request, in the form of Kubernetes' API.
func (t Target) URL(verb string, query url.Values) *url.URL {
	values := url.Values{}
	maps.Copy(values, query)
	if t.UID != "" {
		values.Set(UID, t.UID)
	}
	// The names have been validated, and have no slash.
	return &url.URL{Scheme: "http", Host: "node", Path: "/" + path.Join(verb, t.Namespace, t.Pod, t.Container), RawQuery: values.Encode()}
}

// Pattern returns the pattern, for http.ServeMux, of the paths of a verb.
func Pattern(verb string) string {
	if verb == PortForward || verb == Dial {
		return "/" + verb + "/{namespace}/{pod}"
	}
	return "/" + verb + "/{namespace}/{pod}/{container}"
}
