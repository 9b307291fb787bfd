package podlifecycle

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/env"
	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

// Annotations of the runtime's containers, Kubernetes' own. From them a restarted agent learns what
// it needs about containers that it did not create.
const (
	annotationRestartCount  = "io.kubernetes.container.restartCount"
	annotationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	annotationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	annotationGrace         = "io.kubernetes.pod.terminationGracePeriod"
)

// containerConfig returns the configuration from which the runtime creates a container. An error is
// a fault in the pod, for example a reference to an object that does not exist.
func (l *Lifecycle) containerConfig(ctx context.Context, s start, c *corev1.Container, image string) (runtime.ContainerConfig, error) {
	pod := s.pod
	if err := l.checkUser(ctx, pod, c, image); err != nil {
		return runtime.ContainerConfig{}, err
	}
	node := l.cfg.Node()
	environment, err := env.Build(ctx, pod, c, l.cfg.References, node.Status.Allocatable)
	if err != nil {
		return runtime.ContainerConfig{}, err
	}
	if len(environment.Skipped) > 0 {
		l.event(pod, c.Name, corev1.EventTypeWarning, "InvalidEnvironmentVariableNames",
			"Keys [%s] were skipped since they are considered invalid environment variable names.", strings.Join(environment.Skipped, ", "))
	}
	given, err := allocation.Encode(c)
	if err != nil {
		return runtime.ContainerConfig{}, err
	}
	known := environment.Map()
	attempt := l.attempt(s, c)
	cfg := runtime.ContainerConfig{
		Name: c.Name, Attempt: attempt, Image: image, UserImage: c.Image,
		Command: expand(c.Command, known), Args: expand(c.Args, known), WorkingDir: c.WorkingDir,
		Labels: kindLabels(pod, c),
		Annotations: map[string]string{
			podactions.AnnotationHash: podactions.Hash(c),
			allocation.Annotation:     given,
			annotationRestartCount:    strconv.FormatUint(uint64(attempt), 10),
			annotationMessagePath:     c.TerminationMessagePath,
			annotationMessagePolicy:   string(c.TerminationMessagePolicy),
			annotationGrace:           strconv.FormatInt(int64(graceOf(pod).Seconds()), 10),
		},
		LogPath:   filepath.Join(c.Name, strconv.FormatUint(uint64(attempt), 10)+".log"),
		Resources: l.resources(pod, c, node),
		Security:  l.security(pod, c),
		Stdin:     c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY,
	}
	for _, v := range environment.Vars {
		cfg.Env = append(cfg.Env, runtime.EnvVar{Name: v.Name, Value: v.Value})
	}
	if err := os.MkdirAll(filepath.Join(s.sandbox.LogDirectory, c.Name), 0o755); err != nil {
		return cfg, fmt.Errorf("creating the log directory: %w", err)
	}
	cfg.Mounts, err = l.mounts(s, c, known, attempt)
	return cfg, err
}

// kindLabels marks a container that must end before the pod's containers start.
func kindLabels(pod *corev1.Pod, c *corev1.Container) map[string]string {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name && !podactions.IsSidecar(c) {
			return map[string]string{runtime.LabelContainerKind: runtime.KindInit}
		}
	}
	return nil
}

func expand(list []string, known map[string]string) []string {
	if list == nil {
		return nil
	}
	return env.ExpandAll(list, known)
}

// mounts returns the container's volume mounts and the files that the agent provides.
func (l *Lifecycle) mounts(s start, c *corev1.Container, known map[string]string, attempt uint32) ([]runtime.Mount, error) {
	var mounts []runtime.Mount
	ownHosts := false
	for i := range c.VolumeMounts {
		mount, err := l.volumeMount(s, c, i, known)
		if err != nil {
			return nil, err
		}
		if mount.ContainerPath == "/etc/hosts" {
			ownHosts = true
		}
		mounts = append(mounts, mount)
	}
	if !ownHosts {
		path, err := l.writeHosts(s.pod)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, runtime.Mount{HostPath: path, ContainerPath: "/etc/hosts"})
	}
	if c.TerminationMessagePath != "" {
		path := l.messagePath(string(s.pod.UID), c.Name, attempt)
		if err := makeMessageFile(path); err != nil {
			return nil, err
		}
		mounts = append(mounts, runtime.Mount{HostPath: path, ContainerPath: c.TerminationMessagePath})
	}
	return mounts, nil
}

// volumeMount returns the container's volume mount at index.
func (l *Lifecycle) volumeMount(s start, c *corev1.Container, index int, known map[string]string) (runtime.Mount, error) {
	m := &c.VolumeMounts[index]
	path, ok := s.volumes[m.Name]
	if !ok {
		return runtime.Mount{}, fmt.Errorf("volume %q of the mount at %s is not mounted", m.Name, m.MountPath)
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = env.Expand(m.SubPathExpr, known)
		if strings.Contains(sub, "$(") {
			return runtime.Mount{}, fmt.Errorf("missing value for %q", m.SubPathExpr)
		}
	}
	if sub != "" {
		var err error
		path, err = l.cfg.Volumes.MountSubPath(volumes.SubPath{
			UID: string(s.pod.UID), Container: c.Name, Volume: m.Name, Index: index, Root: path, Path: sub,
		})
		if err != nil {
			return runtime.Mount{}, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", m.Name, c.Name, err)
		}
	}
	mount := runtime.Mount{HostPath: path, ContainerPath: absolute(m.MountPath), ReadOnly: m.ReadOnly || readOnly(s.pod, m.Name)}
	if m.MountPropagation != nil {
		mount.Propagation = runtime.Propagation(*m.MountPropagation)
	}
	return mount, nil
}

// releaseSubPaths removes the subPath mounts of containers that have ended.
func (l *Lifecycle) releaseSubPaths(pod *corev1.Pod, state *podstate.Pod) {
	running := map[string]bool{}
	for _, c := range state.Running() {
		running[c.Name] = true
	}
	err := l.cfg.Volumes.ReleaseSubPaths(string(pod.UID), func(container string) bool { return running[container] })
	if err != nil {
		// Nothing depends on it: the next sync retries, and so does the removal of the pod.
		l.cfg.Logger.Warn("releasing subPaths failed", "namespace", pod.Namespace, "name", pod.Name, "err", err)
	}
}

// readOnly reports whether containers of the pod must not write to the volume.
func readOnly(pod *corev1.Pod, volume string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume && volumes.ReadOnly(&v) })
}

func absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return "/" + path
}

// The limits of CPU shares and quota, and the OOM scores, are the kubelet's.
const (
	minShares       = 2
	maxShares       = 262144
	quotaPeriod     = 100000
	minQuota        = 1000
	scoreGuaranteed = -997
	scoreBestEffort = 1000
)

func (l *Lifecycle) resources(pod *corev1.Pod, c *corev1.Container, node *corev1.Node) runtime.Resources {
	request, limit := c.Resources.Requests.Cpu().MilliValue(), c.Resources.Limits.Cpu().MilliValue()
	if request == 0 {
		request = limit
	}
	r := runtime.Resources{
		CPUShares:   min(max(request*1024/1000, minShares), maxShares),
		MemoryLimit: c.Resources.Limits.Memory().Value(),
		OOMScoreAdj: oomScore(pod, c, node),
	}
	if limit > 0 {
		r.CPUPeriod = quotaPeriod
		r.CPUQuota = max(limit*quotaPeriod/1000, minQuota)
	}
	return r
}

// oomScore makes containers that requested less of the node's memory die first (kubelet, qos
// policy).
func oomScore(pod *corev1.Pod, c *corev1.Container, node *corev1.Node) int64 {
	switch pod.Status.QOSClass {
	case corev1.PodQOSGuaranteed:
		return scoreGuaranteed
	case corev1.PodQOSBestEffort:
		return scoreBestEffort
	}
	capacity := node.Status.Capacity.Memory().Value()
	if capacity == 0 {
		return scoreBestEffort - 1
	}
	score := 1000 - 1000*c.Resources.Requests.Memory().Value()/capacity
	return min(max(score, 1000+scoreGuaranteed), scoreBestEffort-1)
}

func (l *Lifecycle) security(pod *corev1.Pod, c *corev1.Container) runtime.SecurityContext {
	var s runtime.SecurityContext
	s.Seccomp = runtime.SecurityProfile{Type: string(corev1.SeccompProfileTypeUnconfined)}
	if p := pod.Spec.SecurityContext; p != nil {
		s.RunAsUser, s.RunAsGroup = p.RunAsUser, p.RunAsGroup
		s.SupplementalGroups = p.SupplementalGroups
		if p.FSGroup != nil {
			s.SupplementalGroups = append(append([]int64(nil), s.SupplementalGroups...), *p.FSGroup)
		}
		if p.SeccompProfile != nil {
			s.Seccomp = l.seccomp(p.SeccompProfile)
		}
	}
	if own := c.SecurityContext; own != nil {
		if own.RunAsUser != nil {
			s.RunAsUser = own.RunAsUser
		}
		if own.RunAsGroup != nil {
			s.RunAsGroup = own.RunAsGroup
		}
		s.Privileged = isTrue(own.Privileged)
		s.ReadOnlyRootFS = isTrue(own.ReadOnlyRootFilesystem)
		s.NoNewPrivs = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
		if own.Capabilities != nil {
			s.AddCapabilities = capabilities(own.Capabilities.Add)
			s.DropCapabilities = capabilities(own.Capabilities.Drop)
		}
		if own.SeccompProfile != nil {
			s.Seccomp = l.seccomp(own.SeccompProfile)
		}
	}
	if !s.Privileged {
		// Kubernetes' DefaultProcMount.
		s.MaskedPaths = []string{
			"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
			"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
			"/sys/devices/virtual/powercap",
		}
		s.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	}
	return s
}

// seccomp returns the profile as the runtime knows it: a local profile by its path, as in the
// kubelet.
func (l *Lifecycle) seccomp(p *corev1.SeccompProfile) runtime.SecurityProfile {
	profile := runtime.SecurityProfile{Type: string(p.Type)}
	if p.LocalhostProfile != nil {
		profile.LocalhostRef = filepath.Join(l.cfg.SeccompDir, filepath.Join("/", *p.LocalhostProfile))
	}
	return profile
}

func capabilities(list []corev1.Capability) []string {
	names := make([]string, 0, len(list))
	for _, c := range list {
		names = append(names, string(c))
	}
	return names
}

// checkUser refuses to run a container as root if its spec forbids that.
func (l *Lifecycle) checkUser(ctx context.Context, pod *corev1.Pod, c *corev1.Container, image string) error {
	nonRoot := pod.Spec.SecurityContext != nil && isTrue(pod.Spec.SecurityContext.RunAsNonRoot)
	if c.SecurityContext != nil && c.SecurityContext.RunAsNonRoot != nil {
		nonRoot = *c.SecurityContext.RunAsNonRoot
	}
	if !nonRoot {
		return nil
	}
	if user := l.security(pod, c).RunAsUser; user != nil {
		if *user == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", formatPod(pod), c.Name)
		}
		return nil
	}
	found, err := l.cfg.Runtime.ImageStatus(ctx, image)
	if err != nil {
		return fmt.Errorf("reading the user of the image: %w", err)
	}
	switch {
	case found.UID != nil && *found.UID == 0, found.UID == nil && found.Username == "":
		return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %q, container: %s)", formatPod(pod), c.Name)
	case found.UID == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: %q, container: %s)", found.Username, formatPod(pod), c.Name)
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// sandboxConfig returns the configuration from which the runtime creates the pod's sandbox.
func (l *Lifecycle) sandboxConfig(pod *corev1.Pod, attempt uint32) runtime.SandboxConfig {
	spec := &pod.Spec
	cfg := runtime.SandboxConfig{
		Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), Attempt: attempt,
		LogDirectory: l.podLogDir(pod), DNS: l.dns(pod),
		Labels: maps.Clone(pod.Labels), Annotations: maps.Clone(pod.Annotations),
		HostNetwork: spec.HostNetwork, HostPID: spec.HostPID, HostIPC: spec.HostIPC, SharePID: isTrue(spec.ShareProcessNamespace),
		Seccomp: runtime.SecurityProfile{Type: string(corev1.SeccompProfileTypeRuntimeDefault)},
	}
	if !spec.HostNetwork {
		cfg.Hostname = hostname(pod)
	}
	if s := spec.SecurityContext; s != nil {
		cfg.RunAsUser, cfg.RunAsGroup, cfg.SupplementalGroups = s.RunAsUser, s.RunAsGroup, s.SupplementalGroups
		for _, sysctl := range s.Sysctls {
			if cfg.Sysctls == nil {
				cfg.Sysctls = map[string]string{}
			}
			cfg.Sysctls[sysctl.Name] = sysctl.Value
		}
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if s := list[i].SecurityContext; s != nil && isTrue(s.Privileged) {
				cfg.Privileged = true
			}
			for _, p := range list[i].Ports {
				if p.HostPort == 0 || spec.HostNetwork {
					continue
				}
				protocol := runtime.TCP
				if p.Protocol != "" {
					protocol = runtime.Protocol(p.Protocol)
				}
				cfg.PortMappings = append(cfg.PortMappings, runtime.PortMapping{
					Protocol: protocol, ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIP: p.HostIP,
				})
			}
		}
	}
	return cfg
}

// podLogDir returns the directory of a pod's logs: <namespace>_<name>_<uid>, as in Kubernetes.
func (l *Lifecycle) podLogDir(pod *corev1.Pod) string {
	return PodLogDir(l.cfg.LogDir, pod.Namespace, pod.Name, string(pod.UID))
}

// PodLogDir returns the directory of a pod's logs below dir, the directory of all logs.
func PodLogDir(dir, namespace, name, uid string) string {
	return filepath.Join(dir, "pods", namespace+"_"+name+"_"+uid)
}
