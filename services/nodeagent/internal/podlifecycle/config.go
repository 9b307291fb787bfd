package podlifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kernelsysctl "k8s.io/component-helpers/node/util/sysctl"

	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/env"
	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/podfiles"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

// Annotations of the runtime's containers, Kubernetes' own. From them a restarted agent learns what
// it needs about containers that it did not create.
const (
	annotationRestartCount  = "io.kubernetes.container.restartCount"
	annotationGrace         = "io.kubernetes.pod.terminationGracePeriod"
	annotationDeletionGrace = "io.kubernetes.pod.deletionGracePeriod"
	annotationPorts         = "io.kubernetes.container.ports"
	annotationPreStop       = "io.kubernetes.container.preStopHandler"
)

// containerConfig returns the configuration from which the runtime creates a container. An error is
// a fault in the pod, for example a reference to an object that does not exist.
func (l *Lifecycle) containerConfig(ctx context.Context, s start, c *corev1.Container, image string) (runtime.ContainerConfig, error) {
	pod := s.pod
	sees, err := target(s, c)
	if err != nil {
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
	known := environment.Map()
	attempt := l.attempt(s, c)
	cfg := runtime.ContainerConfig{
		Name: c.Name, Attempt: attempt, Image: image, UserImage: c.Image,
		Command: expand(c.Command, known), Args: expand(c.Args, known), WorkingDir: c.WorkingDir,
		Labels:    kindLabels(pod, c),
		LogPath:   filepath.Join(c.Name, strconv.FormatUint(uint64(attempt), 10)+".log"),
		Resources: l.resources(pod, c, node),
		Security:  l.security(pod, c),
		Stdin:     c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY,
		TargetID: sees,
	}
	if cfg.Annotations, err = annotations(pod, c, attempt); err != nil {
		return cfg, err
	}
	for _, v := range environment.Vars {
		cfg.Env = append(cfg.Env, runtime.EnvVar{Name: v.Name, Value: v.Value})
	}
	if err := os.MkdirAll(filepath.Join(s.sandbox.LogDirectory, c.Name), 0o755); err != nil {
		return cfg, fmt.Errorf("creating the log directory: %w", err)
	}
	if cfg.Mounts, err = l.mounts(s, c, known, attempt); err != nil {
		return cfg, err
	}
	return cfg, l.setUser(ctx, pod, c, image, &cfg.Security)
}

// annotations returns the annotations of a container in the runtime.
func annotations(pod *corev1.Pod, c *corev1.Container, attempt uint32) (map[string]string, error) {
	given, err := allocation.Encode(c)
	if err != nil {
		return nil, err
	}
	all := map[string]string{
		podactions.AnnotationHash:        podactions.Hash(c),
		allocation.Annotation:            given,
		annotationRestartCount:           strconv.FormatUint(uint64(attempt), 10),
		podfiles.AnnotationMessagePath:   c.TerminationMessagePath,
		podfiles.AnnotationMessagePolicy: string(c.TerminationMessagePolicy),
		annotationGrace:                  strconv.FormatInt(int64(specGrace(pod).Seconds()), 10),
	}
	if pod.DeletionGracePeriodSeconds != nil {
		all[annotationDeletionGrace] = strconv.FormatInt(*pod.DeletionGracePeriodSeconds, 10)
	}
	encoded := map[string]any{}
	if len(c.Ports) > 0 {
		encoded[annotationPorts] = c.Ports
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		encoded[annotationPreStop] = c.Lifecycle.PreStop
	}
	for key, value := range encoded {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encoding the annotation %s of container %s: %w", key, c.Name, err)
		}
		all[key] = string(text)
	}
	return all, nil
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
		path := podfiles.MessagePath(l.podDir(s.pod), c.Name, attempt)
		if err := podfiles.MakeMessage(path); err != nil {
			return nil, err
		}
		mounts = append(mounts, runtime.Mount{HostPath: path, ContainerPath: absolute(c.TerminationMessagePath)})
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
		if missing := env.Missing(m.SubPathExpr, known); len(missing) > 0 {
			return runtime.Mount{}, fmt.Errorf("missing value for %s", strings.Join(missing, ", "))
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

func (l *Lifecycle) security(pod *corev1.Pod, c *corev1.Container) runtime.SecurityContext {
	var s runtime.SecurityContext
	s.Seccomp = runtime.SecurityProfile{Type: string(corev1.SeccompProfileTypeUnconfined)}
	s.SupplementalGroups = groups(pod)
	if p := pod.Spec.SecurityContext; p != nil {
		s.RunAsUser, s.RunAsGroup = p.RunAsUser, p.RunAsGroup
		s.AppArmor, s.SELinux = appArmor(p.AppArmorProfile), seLinux(p.SELinuxOptions)
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
		s.Privileged = privileged(own)
		s.ReadOnlyRootFS = isTrue(own.ReadOnlyRootFilesystem)
		s.NoNewPrivs = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
		if own.Capabilities != nil {
			s.AddCapabilities = capabilities(own.Capabilities.Add)
			s.DropCapabilities = capabilities(own.Capabilities.Drop)
		}
		if own.SeccompProfile != nil {
			s.Seccomp = l.seccomp(own.SeccompProfile)
		}
		if own.AppArmorProfile != nil {
			s.AppArmor = appArmor(own.AppArmorProfile)
		}
		s.SELinux = cmp.Or(seLinux(own.SELinuxOptions), s.SELinux)
	}
	// Kubernetes' DefaultProcMount. The runtime masks nothing in a privileged container.
	s.MaskedPaths = append([]string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}, l.cfg.MaskedPaths...)
	s.ReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	return s
}

// groups returns the groups of all processes of a pod beyond those of their users.
func groups(pod *corev1.Pod) []int64 {
	s := pod.Spec.SecurityContext
	if s == nil {
		return nil
	}
	if s.FSGroup == nil {
		return s.SupplementalGroups
	}
	return append([]int64{*s.FSGroup}, s.SupplementalGroups...)
}

// appArmor returns a profile as the runtime knows it; nil if the pod asks for none. Profiles of the
// node are not supported.
func appArmor(p *corev1.AppArmorProfile) *runtime.SecurityProfile {
	if p == nil {
		return nil
	}
	return &runtime.SecurityProfile{Type: string(p.Type)}
}

// seLinux returns a label as the runtime knows it; nil if the pod asks for none.
func seLinux(o *corev1.SELinuxOptions) *runtime.SELinuxLabel {
	if o == nil {
		return nil
	}
	return &runtime.SELinuxLabel{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
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

// setUser sets the user of a container whose spec has none to the user of its image, and refuses to
// run a container as root if its spec forbids that.
func (l *Lifecycle) setUser(ctx context.Context, pod *corev1.Pod, c *corev1.Container, image string, s *runtime.SecurityContext) error {
	if s.RunAsUser != nil {
		if *s.RunAsUser == 0 && nonRoot(pod, c) {
			return fmt.Errorf("container's runAsUser breaks non-root policy (pod: %q, container: %s)", formatPod(pod), c.Name)
		}
		return nil
	}
	found, err := l.cfg.Runtime.ImageStatus(ctx, image)
	switch {
	case err != nil && !nonRoot(pod, c):
		return nil // The runtime reads the user of the image itself.
	case err != nil:
		return fmt.Errorf("reading the user of the image: %w", err)
	case found.UID != nil:
		s.RunAsUser = found.UID
	case found.Username != "":
		s.RunAsUserName = found.Username
	default:
		s.RunAsUser = new(int64)
	}
	switch {
	case !nonRoot(pod, c):
	case s.RunAsUser == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: %q, container: %s)", found.Username, formatPod(pod), c.Name)
	case *s.RunAsUser == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root (pod: %q, container: %s)", formatPod(pod), c.Name)
	}
	return nil
}

// nonRoot reports whether a container must not run as root.
func nonRoot(pod *corev1.Pod, c *corev1.Container) bool {
	if c.SecurityContext != nil && c.SecurityContext.RunAsNonRoot != nil {
		return *c.SecurityContext.RunAsNonRoot
	}
	return pod.Spec.SecurityContext != nil && isTrue(pod.Spec.SecurityContext.RunAsNonRoot)
}

func isTrue(b *bool) bool { return b != nil && *b }

func privileged(s *corev1.SecurityContext) bool { return s != nil && isTrue(s.Privileged) }

// sandboxConfig returns the configuration from which the runtime creates the pod's sandbox.
func (l *Lifecycle) sandboxConfig(pod *corev1.Pod, attempt uint32) runtime.SandboxConfig {
	spec := &pod.Spec
	cfg := runtime.SandboxConfig{
		Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), Attempt: attempt,
		LogDirectory: l.podLogDir(pod), DNS: l.resolver.Pod(pod),
		Labels: maps.Clone(pod.Labels), Annotations: maps.Clone(pod.Annotations),
		HostNetwork: spec.HostNetwork, HostPID: spec.HostPID, HostIPC: spec.HostIPC, SharePID: isTrue(spec.ShareProcessNamespace),
		Seccomp:   runtime.SecurityProfile{Type: string(corev1.SeccompProfileTypeRuntimeDefault)},
		Resources: l.podResources(pod), Overhead: l.overhead(pod),
		SupplementalGroups: groups(pod),
	}
	if !spec.HostNetwork {
		cfg.Hostname = hostname(pod)
	}
	if s := spec.SecurityContext; s != nil {
		cfg.RunAsUser, cfg.RunAsGroup, cfg.SELinux = s.RunAsUser, s.RunAsGroup, seLinux(s.SELinuxOptions)
		for _, sysctl := range s.Sysctls {
			if cfg.Sysctls == nil {
				cfg.Sysctls = map[string]string{}
			}
			cfg.Sysctls[kernelsysctl.NormalizeName(sysctl.Name)] = sysctl.Value
		}
	}
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			c := &list[i]
			cfg.Privileged = cfg.Privileged || privileged(c.SecurityContext)
			cfg.PortMappings = append(cfg.PortMappings, portMappings(pod, c)...)
		}
	}
	for i := range spec.EphemeralContainers {
		cfg.Privileged = cfg.Privileged || privileged(spec.EphemeralContainers[i].SecurityContext)
	}
	return cfg
}

// portMappings returns the ports of a container that its pod keeps while it runs. Those without a
// port of the host tell the runtime what the pod listens on.
func portMappings(pod *corev1.Pod, c *corev1.Container) []runtime.PortMapping {
	if kindLabels(pod, c) != nil {
		return nil
	}
	var mappings []runtime.PortMapping
	seen := map[string]bool{}
	for _, p := range c.Ports {
		family := "any"
		if p.HostIP != "" {
			family = map[bool]string{true: "v6", false: "v4"}[strings.Contains(p.HostIP, ":")]
		}
		name := cmp.Or(p.Name, fmt.Sprintf("%s-%s-%s:%d:%d", family, p.Protocol, p.HostIP, p.ContainerPort, p.HostPort))
		if seen[name] {
			continue
		}
		seen[name] = true
		mappings = append(mappings, runtime.PortMapping{
			Protocol:      runtime.Protocol(cmp.Or(p.Protocol, corev1.ProtocolTCP)),
			ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIP: p.HostIP,
		})
	}
	return mappings
}

// podDir returns the directory of a pod's volumes and other files.
func (l *Lifecycle) podDir(pod *corev1.Pod) string { return l.cfg.Volumes.PodDir(string(pod.UID)) }

// podLogDir returns the directory of a pod's logs: <namespace>_<name>_<uid>, as in Kubernetes.
func (l *Lifecycle) podLogDir(pod *corev1.Pod) string {
	return podLogDir(l.cfg.LogDir, pod.Namespace, pod.Name, string(pod.UID))
}

// podLogDir returns the directory of a pod's logs below dir, the directory of all logs.
func podLogDir(dir, namespace, name, uid string) string {
	return filepath.Join(dir, "pods", namespace+"_"+name+"_"+uid)
}
