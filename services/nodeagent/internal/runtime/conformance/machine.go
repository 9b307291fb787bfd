package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// changing are the calls that a Machine records: those that change something. The order and number
// of the others does not matter to a pod.
var changing = []string{
	"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "UpdatePodSandboxResources",
	"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "UpdateContainerResources", "ExecSync",
	"PullImage", "RemoveImage",
}

// Machine is a container runtime in memory that records the calls that change something. Sandboxes
// and containers have the same IDs in each run of a pod.
type Machine struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer

	root string

	mu         sync.Mutex
	calls      []Call
	created    int64
	sandboxes  []*cri.PodSandboxStatus
	containers []*container
	images     map[string]*cri.Image
}

type container struct {
	sandbox string
	status  *cri.ContainerStatus
}

// NewMachine returns a machine whose files are below root, an absolute path.
func NewMachine(root string) *Machine {
	m := &Machine{root: root}
	m.Begin()
	return m
}

// Root returns the directory of the machine's files.
func (m *Machine) Root() string { return m.root }

// Endpoint returns the endpoint that Run serves.
func (m *Machine) Endpoint() string { return "unix://" + filepath.Join(m.root, "cri.sock") }

// Run serves until ctx ends.
func (m *Machine) Run(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "unix", filepath.Join(m.root, "cri.sock"))
	if err != nil {
		return fmt.Errorf("opening the socket of a machine: %w", err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(m.record))
	cri.RegisterRuntimeServiceServer(server, m)
	cri.RegisterImageServiceServer(server, m)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving the socket of a machine: %w", err)
	}
	return nil
}

// Begin forgets everything except the images that the machine has from the start.
func (m *Machine) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls, m.sandboxes, m.containers, m.created = nil, nil, nil, 0
	m.images = map[string]*cri.Image{}
	for _, image := range Images() {
		if image.Present {
			m.images[image.Name] = image.cri()
		}
	}
}

// Calls returns the recorded calls.
func (m *Machine) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// End ends the running containers with a name.
func (m *Machine) End(name string, code int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.containers {
		if c.status.GetMetadata().GetName() == name {
			c.end(code)
		}
	}
}

func (c *container) end(code int32) {
	if c.status.GetState() != cri.ContainerState_CONTAINER_RUNNING {
		return
	}
	c.status.State, c.status.ExitCode, c.status.FinishedAt = cri.ContainerState_CONTAINER_EXITED, code, time.Now().UnixNano()
	c.status.Reason = map[bool]string{true: "Completed", false: "Error"}[code == 0]
}

func (m *Machine) record(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := filepath.Base(info.FullMethod)
	if message, ok := request.(proto.Message); ok && slices.Contains(changing, method) {
		text, err := protojson.Marshal(message)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		var form any
		if err := json.Unmarshal(text, &form); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		m.mu.Lock()
		m.calls = append(m.calls, Call{Method: method, Request: form})
		m.mu.Unlock()
	}
	return handler(ctx, request)
}

// now returns the time of the next creation: each is a second after the one before, and all are in
// the past.
func (m *Machine) now() int64 {
	m.created++
	return time.Now().Add(-time.Hour).Truncate(time.Hour).Add(time.Duration(m.created) * time.Second).UnixNano()
}

// containerID returns the ID of a container. All IDs of one name have the same beginning.
func containerID(uid, name, attempt string) string { return uid + "/" + name + "/" + attempt }

// Version returns the runtime's name and versions.
func (m *Machine) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: "2.1.0", RuntimeApiVersion: "v1"}, nil
}

// RunPodSandbox creates a sandbox with two addresses.
func (m *Machine) RunPodSandbox(_ context.Context, request *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	config := request.GetConfig()
	s := &cri.PodSandboxStatus{
		Id: fmt.Sprintf("%s-%d", config.GetMetadata().GetUid(), config.GetMetadata().GetAttempt()), Metadata: config.GetMetadata(),
		CreatedAt: m.now(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		Network: &cri.PodSandboxNetworkStatus{},
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{
			Options: config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
	if s.GetLinux().GetNamespaces().GetOptions().GetNetwork() != cri.NamespaceMode_NODE {
		s.Network = &cri.PodSandboxNetworkStatus{Ip: "10.0.0.9", AdditionalIps: []*cri.PodIP{{Ip: "fd00::9"}}}
	}
	m.sandboxes = append([]*cri.PodSandboxStatus{s}, m.sandboxes...)
	return &cri.RunPodSandboxResponse{PodSandboxId: s.GetId()}, nil
}

// StopPodSandbox ends a sandbox and its containers.
func (m *Machine) StopPodSandbox(_ context.Context, request *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sandboxes {
		if s.GetId() == request.GetPodSandboxId() {
			s.State = cri.PodSandboxState_SANDBOX_NOTREADY
		}
	}
	return &cri.StopPodSandboxResponse{}, nil
}

// PodSandboxStatus returns a sandbox.
func (m *Machine) PodSandboxStatus(_ context.Context, request *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sandboxes {
		if s.GetId() == request.GetPodSandboxId() {
			return &cri.PodSandboxStatusResponse{Status: s}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "there is no such sandbox")
}

// ListPodSandbox lists the sandboxes, newest first.
func (m *Machine) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answer := &cri.ListPodSandboxResponse{}
	for _, s := range m.sandboxes {
		answer.Items = append(answer.Items, &cri.PodSandbox{
			Id: s.GetId(), Metadata: s.GetMetadata(), State: s.GetState(), CreatedAt: s.GetCreatedAt(),
			Labels: s.GetLabels(), Annotations: s.GetAnnotations(),
		})
	}
	return answer, nil
}

// CreateContainer creates a container.
func (m *Machine) CreateContainer(_ context.Context, request *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	config, box := request.GetConfig(), request.GetSandboxConfig()
	id := containerID(box.GetMetadata().GetUid(), config.GetMetadata().GetName(), fmt.Sprint(config.GetMetadata().GetAttempt()))
	m.containers = append([]*container{{sandbox: request.GetPodSandboxId(), status: &cri.ContainerStatus{
		Id: id, Metadata: config.GetMetadata(), State: cri.ContainerState_CONTAINER_CREATED, CreatedAt: m.now(),
		Image: config.GetImage(), ImageRef: config.GetImage().GetImage(), Labels: config.GetLabels(), Annotations: config.GetAnnotations(),
		Mounts: config.GetMounts(), LogPath: filepath.Join(box.GetLogDirectory(), config.GetLogPath()),
	}}}, m.containers...)
	return &cri.CreateContainerResponse{ContainerId: id}, nil
}

func (m *Machine) find(id string) (*container, error) {
	for _, c := range m.containers {
		if c.status.GetId() == id {
			return c, nil
		}
	}
	return nil, status.Error(codes.NotFound, "there is no such container")
}

// StartContainer starts a container.
func (m *Machine) StartContainer(_ context.Context, request *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.find(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	c.status.State, c.status.StartedAt = cri.ContainerState_CONTAINER_RUNNING, m.now()
	return &cri.StartContainerResponse{}, nil
}

// StopContainer ends a container.
func (m *Machine) StopContainer(_ context.Context, request *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, err := m.find(request.GetContainerId()); err == nil {
		c.end(137)
	}
	return &cri.StopContainerResponse{}, nil
}

// RemoveContainer removes a container.
func (m *Machine) RemoveContainer(_ context.Context, request *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.containers = slices.DeleteFunc(m.containers, func(c *container) bool { return c.status.GetId() == request.GetContainerId() })
	return &cri.RemoveContainerResponse{}, nil
}

// ContainerStatus returns a container.
func (m *Machine) ContainerStatus(_ context.Context, request *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.find(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &cri.ContainerStatusResponse{Status: proto.CloneOf(c.status)}, nil
}

// ListContainers lists the containers, newest first.
func (m *Machine) ListContainers(context.Context, *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answer := &cri.ListContainersResponse{}
	for _, c := range m.containers {
		answer.Containers = append(answer.Containers, &cri.Container{
			Id: c.status.GetId(), PodSandboxId: c.sandbox, Metadata: c.status.GetMetadata(), Image: c.status.GetImage(),
			ImageRef: c.status.GetImageRef(), State: c.status.GetState(), CreatedAt: c.status.GetCreatedAt(),
			Labels: c.status.GetLabels(), Annotations: c.status.GetAnnotations(),
		})
	}
	return answer, nil
}

// ExecSync runs a command, which fails if it is "false".
func (m *Machine) ExecSync(_ context.Context, request *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	if slices.Equal(request.GetCmd(), []string{"false"}) {
		return &cri.ExecSyncResponse{ExitCode: 1}, nil
	}
	return &cri.ExecSyncResponse{}, nil
}

// PullImage makes an image present.
func (m *Machine) PullImage(_ context.Context, request *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	name := request.GetImage().GetImage()
	for _, image := range Images() {
		switch {
		case image.Name != name:
		case image.Username != "" && request.GetAuth().GetUsername() != image.Username:
			return nil, status.Error(codes.Unknown, "the registry asks for other credentials")
		default:
			m.mu.Lock()
			defer m.mu.Unlock()
			m.images[name] = image.cri()
			return &cri.PullImageResponse{ImageRef: image.ID()}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "there is no such image")
}

// ImageStatus returns an image, by name or by ID.
func (m *Machine) ImageStatus(_ context.Context, request *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := request.GetImage().GetImage()
	for _, image := range Images() {
		names := []string{image.Name, image.ID(), strings.TrimSuffix(image.Name, ":latest")}
		if found := m.images[image.Name]; found != nil && slices.Contains(names, name) {
			return &cri.ImageStatusResponse{Image: found}, nil
		}
	}
	return &cri.ImageStatusResponse{}, nil
}

// ImageFsInfo reports no file systems; the kubelet asks whether the call exists.
func (m *Machine) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	return &cri.ImageFsInfoResponse{}, nil
}

// ListImages lists the images.
func (m *Machine) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answer := &cri.ListImagesResponse{}
	for _, image := range Images() {
		if found := m.images[image.Name]; found != nil {
			answer.Images = append(answer.Images, found)
		}
	}
	return answer, nil
}
