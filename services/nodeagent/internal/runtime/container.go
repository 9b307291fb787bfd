package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerRecord caches a container's status. The status is constant while the container's state
// is, so a relist costs one call plus one for each container that changed.
type containerRecord struct {
	state     cri.ContainerState
	container Container
}

// CreateContainer creates a container in the sandbox, without starting it, and returns its ID. The
// sandbox config must be the one passed to RunSandbox.
func (c *Client) CreateContainer(ctx context.Context, sandboxID string, cfg ContainerConfig, sandbox SandboxConfig) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	answer, err := c.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId:  sandboxID,
		Config:        c.containerConfig(cfg, sandbox),
		SandboxConfig: c.sandboxConfig(sandbox),
	})
	if err != nil {
		return "", failed(fmt.Sprintf("creating the container %q", cfg.Name), err)
	}
	return answer.GetContainerId(), nil
}

// StartContainer starts a created container.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err := c.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: id})
	return failed("starting the container "+short(id), err)
}

// StopContainer asks the container's process to end and kills it if it has not ended after grace
// (whole seconds, rounded up; 0 kills at once). It returns when the container has ended. A
// container that has already ended or is gone is not an error.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	grace = max(grace, 0)
	ctx, cancel := context.WithTimeout(ctx, changeTimeout+grace)
	defer cancel()
	_, err := c.runtime.StopContainer(ctx, &cri.StopContainerRequest{
		ContainerId: id,
		Timeout:     int64((grace + time.Second - 1) / time.Second),
	})
	return gone(failed("stopping the container "+short(id), err))
}

// RemoveContainer removes a container, killing it first if it runs; its log file stays. A missing
// container is not an error.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err := c.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id})
	return gone(failed("removing the container "+short(id), err))
}

// ReopenLog makes the runtime reopen a running container's log file after a rotation renamed it.
func (c *Client) ReopenLog(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := c.runtime.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: id})
	return failed("reopening the log of the container "+short(id), err)
}

// ExecSync runs a command in a running container and waits at most timeout for it (0: limited only
// by ctx); on expiry the error is ErrTimeout. A command that ran and failed is not an error: see
// exitCode. The runtime truncates stdout and stderr at 16 MiB each.
func (c *Client) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (
	stdout, stderr []byte, exitCode int32, err error) {
	if timeout > 0 {
		// The runtime should end the command itself; this is for a runtime that does not.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout+readTimeout)
		defer cancel()
	}
	answer, err := c.runtime.ExecSync(ctx, &cri.ExecSyncRequest{
		ContainerId: id,
		Cmd:         command,
		Timeout:     int64((timeout + time.Second - 1) / time.Second),
	})
	if err != nil {
		return nil, nil, 0, failed("running a command in the container "+short(id), err)
	}
	return answer.GetStdout(), answer.GetStderr(), answer.GetExitCode(), nil
}

// Container returns the current state of one container; ErrNotFound if it does not exist. SandboxID
// stays empty: CRI's response for one container lacks it.
func (c *Client) Container(ctx context.Context, id string) (Container, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return Container{}, failed("reading the container "+short(id), err)
	}
	return containerOf(answer.GetStatus()), nil
}

// Containers lists the containers with their full state, ended ones included. One that the runtime cannot read fails
// alone: see Container.Err. The maps in the result are shared: do not modify them.
func (c *Client) Containers(ctx context.Context) ([]Container, error) {
	listing, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.runtime.ListContainers(listing, &cri.ListContainersRequest{
		Filter: &cri.ContainerFilter{LabelSelector: c.ownLabels()},
	})
	if err != nil {
		return nil, failed("listing the containers", err)
	}
	known := make(map[string]containerRecord, len(answer.GetContainers()))
	containers := make([]Container, 0, len(answer.GetContainers()))
	for _, item := range answer.GetContainers() {
		record, ok := c.containerRecord(item.GetId())
		if !ok || record.state != item.GetState() || record.state == cri.ContainerState_CONTAINER_UNKNOWN ||
			mayHaveRunOutOfMemory(&record.container) {
			read, err := c.Container(ctx, item.GetId())
			if isNotFound(err) {
				continue // removed since it was listed
			}
			if err != nil {
				if !ofOne(err) {
					return nil, fmt.Errorf("listing the containers: %w", err)
				}
				read = listedContainer(item)
				read.SandboxID, read.Err = item.GetPodSandboxId(), err
				containers = append(containers, read)
				continue
			}
			read.SandboxID = item.GetPodSandboxId()
			record = containerRecord{state: criState(read.State), container: read}
		}
		known[item.GetId()] = record
		containers = append(containers, record.container)
	}
	c.mu.Lock()
	c.containers = known
	c.mu.Unlock()
	return containers, nil
}

// listedContainer returns what the list says of a container.
func listedContainer(c *cri.Container) Container {
	return containerOf(&cri.ContainerStatus{
		Id: c.GetId(), Metadata: c.GetMetadata(), State: c.GetState(), CreatedAt: c.GetCreatedAt(),
		Image: c.GetImage(), ImageRef: c.GetImageRef(), Labels: c.GetLabels(), Annotations: c.GetAnnotations(),
	})
}

// oomWithin is the time after a kill in which the runtime may still learn that the kernel's OOM
// killer did it.
const oomWithin = 10 * time.Second

// mayHaveRunOutOfMemory reports whether a container was killed and its reason may still become
// OOMKilled: containerd learns of the exit and of the OOM kill by two events, in any order.
func mayHaveRunOutOfMemory(c *Container) bool {
	const killed, reason = 137, "OOMKilled"
	return c.State == Exited && c.ExitCode == killed && c.Reason != reason && time.Since(c.FinishedAt) < oomWithin
}

func (c *Client) containerRecord(id string) (containerRecord, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record, ok := c.containers[id]
	return record, ok
}

func (c *Client) containerConfig(cfg ContainerConfig, sandbox SandboxConfig) *cri.ContainerConfig {
	out := &cri.ContainerConfig{
		Metadata:    &cri.ContainerMetadata{Name: cfg.Name, Attempt: cfg.Attempt},
		Image:       &cri.ImageSpec{Image: cfg.Image, UserSpecifiedImage: cfg.UserImage},
		Command:     cfg.Command,
		Args:        cfg.Args,
		WorkingDir:  cfg.WorkingDir,
		Labels:      c.identity(cfg.Labels, sandbox, cfg.Name),
		Annotations: cfg.Annotations,
		LogPath:     cfg.LogPath,
		Stdin:       cfg.Stdin,
		StdinOnce:   cfg.StdinOnce,
		Tty:         cfg.TTY,
		Linux: &cri.LinuxContainerConfig{
			Resources:       resources(cfg.Resources),
			SecurityContext: containerSecurity(cfg.Security, sandbox),
		},
	}
	if pid := out.GetLinux().GetSecurityContext().GetNamespaceOptions(); cfg.TargetID != "" && pid.GetPid() == cri.NamespaceMode_CONTAINER {
		pid.Pid, pid.TargetId = cri.NamespaceMode_TARGET, cfg.TargetID
	}
	if cfg.Init {
		out.Labels[LabelContainerKind] = KindInit
	}
	for _, v := range cfg.Env {
		out.Envs = append(out.Envs, &cri.KeyValue{Key: v.Name, Value: []byte(v.Value)})
	}
	for _, m := range cfg.Mounts {
		out.Mounts = append(out.Mounts, &cri.Mount{
			HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly, Propagation: propagation(m.Propagation),
		})
	}
	for _, d := range cfg.Devices {
		out.Devices = append(out.Devices, &cri.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: d.Permissions})
	}
	return out
}

func resources(r Resources) *cri.LinuxContainerResources {
	out := &cri.LinuxContainerResources{
		CpuShares:          r.CPUShares,
		CpuQuota:           r.CPUQuota,
		CpuPeriod:          r.CPUPeriod,
		MemoryLimitInBytes: r.MemoryLimit,
		OomScoreAdj:        r.OOMScoreAdj,
		Unified:            r.Unified,
	}
	for _, limit := range r.HugePageLimits {
		out.HugepageLimits = append(out.HugepageLimits, &cri.HugepageLimit{PageSize: limit.PageSize, Limit: limit.Limit})
	}
	return out
}

func containerSecurity(s SecurityContext, sandbox SandboxConfig) *cri.LinuxContainerSecurityContext {
	out := &cri.LinuxContainerSecurityContext{
		Privileged:         s.Privileged,
		ReadonlyRootfs:     s.ReadOnlyRootFS,
		NoNewPrivs:         s.NoNewPrivs,
		RunAsUser:          int64Value(s.RunAsUser),
		RunAsGroup:         int64Value(s.RunAsGroup),
		RunAsUsername:      s.RunAsUserName,
		SupplementalGroups: s.SupplementalGroups,
		NamespaceOptions:   namespaceOptions(sandbox),
		Seccomp:            securityProfile(s.Seccomp),
		MaskedPaths:        s.MaskedPaths,
		ReadonlyPaths:      s.ReadonlyPaths,
		SelinuxOptions:     seLinux(s.SELinux),
	}
	if s.AppArmor != nil {
		out.Apparmor = securityProfile(*s.AppArmor)
		out.ApparmorProfile = deprecatedAppArmor(*s.AppArmor) //nolint:staticcheck // Older runtimes read only this one.
	}
	if s.AddCapabilities != nil || s.DropCapabilities != nil {
		out.Capabilities = &cri.Capability{AddCapabilities: s.AddCapabilities, DropCapabilities: s.DropCapabilities}
	}
	return out
}

func seLinux(of *SELinuxLabel) *cri.SELinuxOption {
	if of == nil {
		return nil
	}
	return &cri.SELinuxOption{User: of.User, Role: of.Role, Type: of.Type, Level: of.Level}
}

// deprecatedAppArmor returns a profile in the form that older runtimes read.
func deprecatedAppArmor(p SecurityProfile) string {
	if p.Type == "RuntimeDefault" {
		return "runtime/default"
	}
	return "unconfined"
}

func propagation(p Propagation) cri.MountPropagation {
	switch p {
	case PropagationHostToContainer:
		return cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case PropagationBidirectional:
		return cri.MountPropagation_PROPAGATION_BIDIRECTIONAL
	default:
		return cri.MountPropagation_PROPAGATION_PRIVATE
	}
}

func containerOf(s *cri.ContainerStatus) Container {
	labels := s.GetLabels()
	container := Container{
		ID:          s.GetId(),
		PodUID:      labels[LabelPodUID],
		PodName:     labels[LabelPodName],
		Namespace:   labels[LabelPodNamespace],
		Name:        s.GetMetadata().GetName(),
		Attempt:     s.GetMetadata().GetAttempt(),
		Init:        labels[LabelContainerKind] == KindInit,
		State:       stateOf(s.GetState()),
		CreatedAt:   moment(s.GetCreatedAt()),
		StartedAt:   moment(s.GetStartedAt()),
		FinishedAt:  moment(s.GetFinishedAt()),
		ExitCode:    s.GetExitCode(),
		Reason:      s.GetReason(),
		Message:     s.GetMessage(),
		Image:       s.GetImage().GetUserSpecifiedImage(),
		ImageID:     s.GetImageRef(),
		LogPath:     s.GetLogPath(),
		Labels:      labels,
		Annotations: s.GetAnnotations(),
	}
	if container.Image == "" {
		container.Image = s.GetImage().GetImage()
	}
	if reported := s.GetResources().GetLinux(); reported != nil {
		container.Resources = &Resources{
			CPUShares: reported.GetCpuShares(), CPUQuota: reported.GetCpuQuota(), CPUPeriod: reported.GetCpuPeriod(),
			MemoryLimit: reported.GetMemoryLimitInBytes(),
		}
	}
	return container
}

func stateOf(s cri.ContainerState) ContainerState {
	switch s {
	case cri.ContainerState_CONTAINER_CREATED:
		return Created
	case cri.ContainerState_CONTAINER_RUNNING:
		return Running
	case cri.ContainerState_CONTAINER_EXITED:
		return Exited
	default:
		return Unknown
	}
}

func criState(s ContainerState) cri.ContainerState {
	switch s {
	case Created:
		return cri.ContainerState_CONTAINER_CREATED
	case Running:
		return cri.ContainerState_CONTAINER_RUNNING
	case Exited:
		return cri.ContainerState_CONTAINER_EXITED
	default:
		return cri.ContainerState_CONTAINER_UNKNOWN
	}
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

// gone treats the absence of an object to stop or remove as success: containerd 1.6 reports it as
// an error, later versions do not.
func gone(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}
