package runtime

import "time"

// Labels that carry the identity of a pod on its sandboxes and containers. They are Kubernetes'
// own, so crictl and log collectors find the labels they know.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	// LabelNode names the node agent that created a sandbox or container: several agents may share
	// one runtime.
	LabelNode = "garboard.io/node"
	// LabelContainerKind is KindInit on init containers and absent on others.
	LabelContainerKind = "garboard.io/container-kind"
	// KindInit marks a container that must end before the pod's containers start.
	KindInit = "init"
)

// Version identifies a runtime.
type Version struct {
	// Name is the runtime's name, "containerd" or "simulated".
	Name string
	// Version is the runtime's own version.
	Version string
	// API is the version of CRI that the runtime speaks, "v1".
	API string
}

// Status reports whether a runtime can run pods.
type Status struct {
	RuntimeReady bool
	NetworkReady bool
	// Message says what is not ready and why, in the form of the kubelet's node condition:
	// "container runtime network not ready: NetworkReady=false reason:… message:…". Empty when
	// everything is ready.
	Message string
}

// SandboxConfig describes the sandbox of a pod: the resources its containers share.
type SandboxConfig struct {
	// Name, Namespace and UID are the pod's; all required.
	Name, Namespace, UID string
	// Attempt is 0 for a pod's first sandbox and increases by one with each replacement.
	Attempt uint32
	// Hostname is the pod's host name, at most 63 bytes; not set with HostNetwork.
	Hostname string
	// LogDirectory is the absolute directory to which LogPath of the containers is relative.
	LogDirectory string
	// DNS becomes the pod's /etc/resolv.conf; the host's own when nil.
	DNS *DNSConfig
	// PortMappings are the host ports of the pod.
	PortMappings []PortMapping
	// Labels are the pod's. The client adds the identity labels.
	Labels      map[string]string
	Annotations map[string]string
	// CgroupParent is the pod's cgroup as a cgroupfs path ("/garboard/pod<uid>"); the runtime's
	// default when empty.
	CgroupParent string
	// Resources are the sums over the pod's containers, and Overhead what the pod takes beyond them.
	// Runtimes that run each pod in a machine of its own size the machine by them.
	Resources, Overhead Resources
	// HostNetwork, HostPID and HostIPC share the host's namespaces. Otherwise network and IPC
	// belong to the pod, and each container has its own PID namespace unless SharePID is set.
	HostNetwork, HostPID, HostIPC, SharePID bool
	// Sysctls are set in the pod's namespaces.
	Sysctls map[string]string
	// Privileged allows privileged containers in the pod.
	Privileged bool
	// RunAsUser, RunAsGroup and SupplementalGroups apply to the pause process.
	RunAsUser, RunAsGroup *int64
	SupplementalGroups    []int64
	// Seccomp is the profile of the pause process.
	Seccomp SecurityProfile
	// SELinux is the label that the pod asks for; nil for the runtime's choice.
	SELinux *SELinuxLabel
}

// DNSConfig is the content of a resolv.conf.
type DNSConfig struct {
	Servers, Searches, Options []string
}

// Protocol is a transport protocol of a host port.
type Protocol string

// The protocols, spelled as in core/v1.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// PortMapping maps a port of the host to a port of the pod.
type PortMapping struct {
	Protocol                Protocol
	ContainerPort, HostPort int32
	HostIP                  string
}

// Sandbox is one sandbox that the runtime knows.
type Sandbox struct {
	ID              string
	PodUID, PodName string
	Namespace       string
	Attempt         uint32
	CreatedAt       time.Time
	Ready           bool
	IPs             []string
	Labels          map[string]string
	Annotations     map[string]string
	HostNetwork     bool
	// Err is why a listed sandbox could not be read. Its addresses are missing then.
	Err error
}

// ContainerState is the state of a container in its lifecycle.
type ContainerState string

// The states of a container.
const (
	Created ContainerState = "Created"
	Running ContainerState = "Running"
	Exited  ContainerState = "Exited"
	Unknown ContainerState = "Unknown"
)

// ContainerConfig describes a container to create in a sandbox.
type ContainerConfig struct {
	// Name is the container's name in the pod; required.
	Name string
	// Attempt is the container's restart count.
	Attempt uint32
	// Init marks a container that must end before the pod's containers start. Real runtimes ignore
	// it; the simulated runtime lets the container end.
	Init bool
	// Image is the image's ID as returned by PullImage or ImageStatus; required.
	Image string
	// UserImage is the image as written in the pod; the runtime shows it.
	UserImage string
	// Command and Args override the image's entry point and command; nil keeps the image's own.
	Command, Args []string
	WorkingDir    string
	Env           []EnvVar
	Mounts        []Mount
	Devices       []Device
	// Labels are the container's. The client adds the identity labels.
	Labels      map[string]string
	Annotations map[string]string
	// LogPath is relative to the sandbox's LogDirectory.
	LogPath   string
	Resources Resources
	Security  SecurityContext
	// Stdin keeps standard input open; with StdinOnce, until its first reader leaves.
	Stdin, StdinOnce, TTY bool
	// TargetID is the ID of a running container in the same sandbox whose process namespace the
	// container shares; empty for none. It has no effect in a sandbox whose containers share one.
	TargetID string
}

// EnvVar is one environment variable.
type EnvVar struct{ Name, Value string }

// Propagation defines how later mounts propagate between host and container.
type Propagation string

// The propagation modes, spelled as in core/v1.
const (
	PropagationPrivate         Propagation = "None"
	PropagationHostToContainer Propagation = "HostToContainer"
	PropagationBidirectional   Propagation = "Bidirectional"
)

// Mount is a file or directory of the host in a container.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
	// Propagation is PropagationPrivate when empty.
	Propagation Propagation
}

// Device is a device node of the host in a container. Permissions are a subset of "rwm".
type Device struct {
	HostPath, ContainerPath, Permissions string
}

// Resources are a container's cgroup settings; a zero field is not set.
type Resources struct {
	// CPUShares is the weight as in cgroup v1 (2 to 262144; 1024 is one core). The runtime converts
	// it to cgroup v2's weight.
	CPUShares int64
	// CPUQuota is the CPU time over all cores, in microseconds, allowed in each CPUPeriod, also in
	// microseconds.
	CPUQuota, CPUPeriod int64
	// MemoryLimit is in bytes.
	MemoryLimit int64
	// OOMScoreAdj is -1000 (never killed) to 1000 (killed first).
	OOMScoreAdj int64
	// HugePageLimits are in bytes, by the size of the pages as in cgroups ("2MB"). A size that is
	// missing is not limited.
	HugePageLimits []HugePageLimit
	// Unified are cgroup v2 settings by file name; ignored by runtimes on cgroup v1.
	Unified map[string]string
}

// HugePageLimit limits the huge pages of one size, in bytes.
type HugePageLimit struct {
	PageSize string
	Limit    uint64
}

// SecurityContext is what a container may do.
type SecurityContext struct {
	Privileged     bool
	ReadOnlyRootFS bool
	// NoNewPrivs forbids gaining privileges by exec.
	NoNewPrivs                        bool
	RunAsUser, RunAsGroup             *int64
	RunAsUserName                     string
	SupplementalGroups                []int64
	AddCapabilities, DropCapabilities []string
	MaskedPaths, ReadonlyPaths        []string
	Seccomp                           SecurityProfile
	// AppArmor is the profile that the pod asks for; nil for the runtime's choice.
	AppArmor *SecurityProfile
	// SELinux is the label that the pod asks for, of which parts may be empty; nil for the runtime's choice. It has no
	// effect where the kernel has no SELinux.
	SELinux *SELinuxLabel
}

// SELinuxLabel is the label of processes; the runtime chooses the parts that are empty.
type SELinuxLabel struct{ User, Role, Type, Level string }

// SecurityProfile names a seccomp or AppArmor profile: "" for Unconfined, "RuntimeDefault", "Unconfined",
// or "Localhost" with LocalhostRef.
type SecurityProfile struct {
	Type         string
	LocalhostRef string
}

// Container is one container that the runtime knows.
type Container struct {
	ID, SandboxID         string
	PodUID, PodName       string
	Namespace             string
	Name                  string
	Attempt               uint32
	Init                  bool
	State                 ContainerState
	CreatedAt             time.Time
	StartedAt, FinishedAt time.Time // zero if it has not happened
	ExitCode              int32
	// Reason is the runtime's, "Completed", "Error", "OOMKilled", "StartError".
	Reason, Message string
	// Image is the image as requested; ImageID is the runtime's reference to it (for containerd a
	// digest reference, shown as imageID in a pod's status).
	Image, ImageID string
	// LogPath is absolute.
	LogPath     string
	Labels      map[string]string
	Annotations map[string]string
	// Resources are the container's settings of CPU and memory; nil if the
	// runtime does not report them (containerd before 1.7).
	Resources *Resources
	// Err is why a listed container could not be read. What happened to it is missing then.
	Err error
}

// Auth holds the credentials for a registry. All fields empty means no credentials.
type Auth struct {
	Username, Password           string
	ServerAddress                string
	IdentityToken, RegistryToken string
}

// Image is one image on the node.
type Image struct {
	// ID is the digest of the image's configuration ("sha256:…").
	ID string
	// Tags and Digests are full references ("docker.io/library/nginx:1.14.2").
	Tags, Digests []string
	// Size is in bytes, as stored by the runtime.
	Size uint64
	// UID is the numeric user the image runs as; Username is its named user.
	UID      *int64
	Username string
	// Pinned images must not be garbage-collected.
	Pinned bool
}

// EventType is the kind of event of a container or sandbox.
type EventType string

// The types of events.
const (
	EventCreated EventType = "Created"
	EventStarted EventType = "Started"
	EventStopped EventType = "Stopped"
	EventDeleted EventType = "Deleted"
)

// Event reports that something happened. Read the current state from Sandboxes and Containers.
type Event struct {
	// ID is the ID of the container or sandbox.
	ID string
	// PodUID is the UID of its pod; empty when the runtime did not report it.
	PodUID string
	Type   EventType
	At     time.Time
}
