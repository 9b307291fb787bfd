package simulated

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Exit codes of containers that did not end by themselves.
const (
	killed      int32 = 137 // by SIGKILL
	startFailed int32 = 128
)

var netipNone netip.Addr

// CreateContainer creates a container from a pulled image.
func (r *Runtime) CreateContainer(_ context.Context, request *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	config := request.GetConfig()
	if config.GetMetadata().GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "container config has no name in its metadata")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[request.GetPodSandboxId()]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", request.GetPodSandboxId())
	}
	if !s.Ready {
		return nil, status.Errorf(codes.Unknown, "failed to get sandbox container task: sandbox %q is not running", s.ID)
	}
	if words, fail := annotation(s.Config.M.GetAnnotations(), keyFailCreate, config.GetMetadata().GetName()); fail {
		return nil, status.Error(codes.Unknown, words)
	}
	if _, err := r.cfg.behaviourOf(s.Config.M, config); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	for _, other := range r.containersOf(s.ID) {
		if other.Config.M.GetMetadata().GetName() == config.GetMetadata().GetName() &&
			other.Config.M.GetMetadata().GetAttempt() == config.GetMetadata().GetAttempt() {
			name := fmt.Sprintf("%s_%s_%d", config.GetMetadata().GetName(), s.Config.M.GetMetadata().GetName(), config.GetMetadata().GetAttempt())
			return nil, status.Errorf(codes.Unknown, "failed to reserve container name %q: name %q is reserved for %q", name, name, other.ID)
		}
	}
	if err := r.checkTarget(s.ID, config); err != nil {
		return nil, err
	}
	pulled := r.findImage(config.GetImage().GetImage())
	if pulled == nil {
		return nil, status.Errorf(codes.NotFound, "failed to resolve image %q: not found", config.GetImage().GetImage())
	}
	c := &container{
		ID: newID(), SandboxID: s.ID, Config: message[*cri.ContainerConfig]{config}, ImageID: pulled.ID, ImageRef: pulled.Ref,
		State: cri.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now(),
	}
	if s.Config.M.GetLogDirectory() != "" && config.GetLogPath() != "" {
		c.LogPath = filepath.Join(s.Config.M.GetLogDirectory(), config.GetLogPath())
	}
	if err := r.store.write(containerFolder, c.ID, c); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	r.containers[c.ID] = c
	r.notify(c.ID, s, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &cri.CreateContainerResponse{ContainerId: c.ID}, nil
}

// StartContainer marks the container as running after the start delay.
func (r *Runtime) StartContainer(ctx context.Context, request *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.State != cri.ContainerState_CONTAINER_CREATED || c.starting {
		return nil, status.Errorf(codes.Unknown, "container is in %s state", c.State)
	}
	s := r.sandboxes[c.SandboxID]
	b := r.behaviour(c)
	if b.startDelay > 0 {
		c.starting = true
		r.mu.Unlock()
		err := wait(ctx, b.startDelay)
		r.mu.Lock()
		c.starting = false
		if err != nil {
			return nil, status.FromContextError(err).Err()
		}
		if r.containers[c.ID] != c || !s.Ready {
			return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", s.ID)
		}
	}
	now := time.Now()
	if b.failStart != "" {
		c.FinishedAt, c.ExitCode, c.Reason, c.Message = now, startFailed, "StartError", b.failStart
		c.State = cri.ContainerState_CONTAINER_EXITED
		if err := r.store.write(containerFolder, c.ID, c); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		r.notify(c.ID, s, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
		return nil, status.Error(codes.Unknown, b.failStart)
	}
	if err := c.log(now, b.log); err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to create container loggers: %v", err)
	}
	c.State, c.StartedAt = cri.ContainerState_CONTAINER_RUNNING, now
	if b.exits {
		c.ExitAt, c.WillExit = now.Add(b.exitAfter), b.exitCode
	}
	if err := r.store.write(containerFolder, c.ID, c); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	r.notify(c.ID, s, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	r.rouse()
	return &cri.StartContainerResponse{}, nil
}

// StopContainer ends a container: with code 0 if its stop delay is within the grace period, else as
// killed.
func (r *Runtime) StopContainer(ctx context.Context, request *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[request.GetContainerId()]
	if c == nil {
		return &cri.StopContainerResponse{}, nil // CRI requires success for unknown containers
	}
	grace := time.Duration(request.GetTimeout()) * time.Second
	b := r.behaviour(c)
	code, reason := int32(0), "Completed"
	if grace == 0 || b.stopDelay > grace {
		code, reason = killed, "Error"
	}
	if delay := min(b.stopDelay, grace); delay > 0 && c.State == cri.ContainerState_CONTAINER_RUNNING {
		r.mu.Unlock()
		err := wait(ctx, delay)
		r.mu.Lock()
		if err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	now := time.Now()
	r.settle(now)
	if c.State != cri.ContainerState_CONTAINER_RUNNING {
		return &cri.StopContainerResponse{}, nil
	}
	if err := r.exit(c, now, code, reason); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &cri.StopContainerResponse{}, nil
}

// RemoveContainer removes a container, killing it first if it runs. Its log stays.
func (r *Runtime) RemoveContainer(_ context.Context, request *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[request.GetContainerId()]; c != nil {
		if err := r.removeContainer(c); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &cri.RemoveContainerResponse{}, nil
}

func (r *Runtime) removeContainer(c *container) error {
	if c.State == cri.ContainerState_CONTAINER_RUNNING {
		if err := r.exit(c, time.Now(), killed, "Error"); err != nil {
			return err
		}
	}
	if err := r.store.remove(containerFolder, c.ID); err != nil {
		return err
	}
	delete(r.containers, c.ID)
	r.notify(c.ID, r.sandboxes[c.SandboxID], cri.ContainerEventType_CONTAINER_DELETED_EVENT)
	return nil
}

// ListContainers lists the containers that match the filter, newest first.
func (r *Runtime) ListContainers(_ context.Context, request *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	filter := request.GetFilter()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(time.Now())
	answer := &cri.ListContainersResponse{}
	for _, c := range sorted(r.containers, func(c *container) time.Time { return c.CreatedAt }) {
		if filter.GetId() != "" && filter.GetId() != c.ID ||
			filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.SandboxID ||
			filter.GetState() != nil && filter.GetState().GetState() != c.State ||
			!selected(filter.GetLabelSelector(), c.Config.M.GetLabels()) {
			continue
		}
		answer.Containers = append(answer.Containers, &cri.Container{
			Id: c.ID, PodSandboxId: c.SandboxID, Metadata: c.Config.M.GetMetadata(), Image: c.Config.M.GetImage(),
			ImageRef: c.ImageID, ImageId: c.ImageID, State: c.State, CreatedAt: c.CreatedAt.UnixNano(),
			Labels: c.Config.M.GetLabels(), Annotations: c.Config.M.GetAnnotations(),
		})
	}
	return answer, nil
}

// ContainerStatus returns the status of one container.
func (r *Runtime) ContainerStatus(_ context.Context, request *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(time.Now())
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{
		Id: c.ID, Metadata: c.Config.M.GetMetadata(), State: c.State,
		CreatedAt: nanoseconds(c.CreatedAt), StartedAt: nanoseconds(c.StartedAt), FinishedAt: nanoseconds(c.FinishedAt),
		ExitCode: c.ExitCode, Image: c.Config.M.GetImage(), ImageRef: c.ImageRef, ImageId: c.ImageID,
		Reason: c.Reason, Message: c.Message, Labels: c.Config.M.GetLabels(), Annotations: c.Config.M.GetAnnotations(),
		Mounts: c.Config.M.GetMounts(), LogPath: c.LogPath, Resources: &cri.ContainerResources{Linux: c.Config.M.GetLinux().GetResources()},
	}}, nil
}

// ReopenContainerLog creates the log file again after it was renamed.
func (r *Runtime) ReopenContainerLog(_ context.Context, request *cri.ReopenContainerLogRequest) (*cri.ReopenContainerLogResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(time.Now())
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.State != cri.ContainerState_CONTAINER_RUNNING {
		return nil, status.Error(codes.Unknown, "container is not running")
	}
	if err := c.write(nil); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &cri.ReopenContainerLogResponse{}, nil
}

// ExecSync returns the output and exit code in the pod's annotations; by default no output and code
// 0.
func (r *Runtime) ExecSync(_ context.Context, request *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.runningContainer(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	if len(request.GetCmd()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no command to run")
	}
	b := r.behaviour(c)
	return &cri.ExecSyncResponse{Stdout: []byte(b.execOut), ExitCode: b.execCode}, nil
}

// container returns a container, or the error of a call for an unknown one.
func (r *Runtime) container(id string) (*container, error) {
	c := r.containers[id]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", id)
	}
	return c, nil
}

// runningContainer returns a container that runs, or the error of a call that needs one. The lock is held.
func (r *Runtime) runningContainer(id string) (*container, error) {
	r.settle(time.Now())
	c, err := r.container(id)
	if err != nil {
		return nil, err
	}
	if c.State != cri.ContainerState_CONTAINER_RUNNING {
		return nil, status.Errorf(codes.Unknown, "container is in %s state", c.State)
	}
	return c, nil
}

func (r *Runtime) containersOf(sandbox string) []*container {
	var found []*container
	for _, c := range r.containers {
		if c.SandboxID == sandbox {
			found = append(found, c)
		}
	}
	return found
}

func (r *Runtime) behaviour(c *container) behaviour {
	// CreateContainer has checked the annotations.
	b, _ := r.cfg.behaviourOf(r.sandboxes[c.SandboxID].Config.M, c.Config.M)
	return b
}

func isInit(config *cri.ContainerConfig) bool {
	return config.GetLabels()[runtime.LabelContainerKind] == runtime.KindInit
}

// settle ends the containers that are due and returns when the next one is.
func (r *Runtime) settle(now time.Time) (next time.Time) {
	for _, c := range r.containers {
		if c.State != cri.ContainerState_CONTAINER_RUNNING || c.ExitAt.IsZero() {
			continue
		}
		if c.ExitAt.After(now) {
			if next.IsZero() || c.ExitAt.Before(next) {
				next = c.ExitAt
			}
			continue
		}
		reason := "Completed"
		if c.WillExit != 0 {
			reason = "Error"
		}
		if err := r.exit(c, c.ExitAt, c.WillExit, reason); err != nil {
			// It has ended all the same; if the process dies now, it ends once more at the same
			// moment.
			r.cfg.Logger.Error("writing the end of a simulated container failed", "container", c.ID, "err", err)
		}
	}
	return next
}

func (r *Runtime) exit(c *container, at time.Time, code int32, reason string) error {
	c.State, c.FinishedAt, c.ExitCode, c.Reason = cri.ContainerState_CONTAINER_EXITED, at, code, reason
	r.notify(c.ID, r.sandboxes[c.SandboxID], cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	return r.store.write(containerFolder, c.ID, c)
}

// log writes the log output of a starting container.
func (c *container) log(at time.Time, text string) error {
	if text == "" {
		image := c.Config.M.GetImage()
		name := image.GetUserSpecifiedImage()
		if name == "" {
			name = image.GetImage()
		}
		text = fmt.Sprintf("simulated container %s of image %s: nothing runs", c.Config.M.GetMetadata().GetName(), name)
	}
	var lines []byte
	for line := range strings.Lines(text) {
		lines = append(lines, containerlog.Format(at, containerlog.Stdout, false, []byte(strings.TrimSuffix(line, "\n")))...)
	}
	return c.write(lines)
}

// write appends to the log file. The node agent creates the file's directory.
func (c *container) write(lines []byte) error {
	if c.LogPath == "" {
		return nil
	}
	file, err := os.OpenFile(c.LogPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	_, err = file.Write(lines)
	return errors.Join(err, file.Close())
}

func wait(ctx context.Context, d time.Duration) error {
	backoff.Sleep(ctx, d)
	return ctx.Err()
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
