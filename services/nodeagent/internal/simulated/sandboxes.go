package simulated

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version returns the runtime's name and versions.
func (r *Runtime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: runtimeName, RuntimeVersion: runtimeVersion, RuntimeApiVersion: "v1"}, nil
}

// Status reports that everything is ready.
func (r *Runtime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true},
		{Type: cri.NetworkReady, Status: true},
	}}}, nil
}

// RunPodSandbox creates a sandbox and assigns it an address.
func (r *Runtime) RunPodSandbox(_ context.Context, request *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	config := request.GetConfig()
	if config.GetMetadata().GetUid() == "" || config.GetMetadata().GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "sandbox config has no name or uid in its metadata")
	}
	if words, fail := annotation(config.GetAnnotations(), keyFailSandbox, ""); fail {
		return nil, status.Error(codes.Unknown, words)
	}
	if text, ok := annotation(config.GetAnnotations(), keyHTTPStatus, ""); ok {
		if code, err := strconv.Atoi(text); err != nil || code < 200 || code > 599 {
			return nil, status.Errorf(codes.InvalidArgument, "%s%s is %q, not a number from 200 to 599", AnnotationPrefix, keyHTTPStatus, text)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name := sandboxName(config)
	for _, other := range r.sandboxes {
		if sandboxName(other.Config.M) == name {
			return nil, status.Errorf(codes.Unknown, "failed to reserve sandbox name %q: name %q is reserved for %q", name, name, other.ID)
		}
	}
	s := &sandbox{ID: newID(), Config: message[*cri.PodSandboxConfig]{config}, Ready: true, CreatedAt: time.Now()}
	if !hostNetwork(config) {
		address, err := r.addresses.take()
		if err != nil {
			return nil, status.Errorf(codes.Unknown, "failed to setup network for sandbox %q: %v", s.ID, err)
		}
		s.IP = address
	}
	if err := r.store.write(sandboxFolder, s.ID, s); err != nil {
		r.addresses.give(s.IP)
		return nil, status.Error(codes.Internal, err.Error())
	}
	r.sandboxes[s.ID] = s
	r.notify(s.ID, s, cri.ContainerEventType_CONTAINER_CREATED_EVENT)
	r.notify(s.ID, s, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &cri.RunPodSandboxResponse{PodSandboxId: s.ID}, nil
}

// StopPodSandbox kills the sandbox's containers and releases its address.
func (r *Runtime) StopPodSandbox(_ context.Context, request *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// CRI requires success for unknown sandboxes.
	if s := r.sandboxes[request.GetPodSandboxId()]; s != nil {
		if err := r.stopSandbox(s); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return &cri.StopPodSandboxResponse{}, nil
}

func (r *Runtime) stopSandbox(s *sandbox) error {
	now := time.Now()
	r.settle(now)
	for _, c := range r.containersOf(s.ID) {
		if c.State == cri.ContainerState_CONTAINER_RUNNING {
			if err := r.exit(c, now, killed, "Error"); err != nil {
				return err
			}
		}
	}
	if !s.Ready {
		return nil
	}
	r.addresses.give(s.IP)
	s.Ready, s.IP = false, netipNone
	if err := r.store.write(sandboxFolder, s.ID, s); err != nil {
		return err
	}
	r.notify(s.ID, s, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
	return nil
}

// RemovePodSandbox removes a sandbox and its containers.
func (r *Runtime) RemovePodSandbox(_ context.Context, request *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[request.GetPodSandboxId()]
	if s == nil {
		return &cri.RemovePodSandboxResponse{}, nil
	}
	if err := r.stopSandbox(s); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	for _, c := range r.containersOf(s.ID) {
		if err := r.removeContainer(c); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	if err := r.store.remove(sandboxFolder, s.ID); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	delete(r.sandboxes, s.ID)
	r.notify(s.ID, s, cri.ContainerEventType_CONTAINER_DELETED_EVENT)
	return &cri.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus returns the status of one sandbox.
func (r *Runtime) PodSandboxStatus(_ context.Context, request *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[request.GetPodSandboxId()]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find sandbox %q: not found", request.GetPodSandboxId())
	}
	return &cri.PodSandboxStatusResponse{Status: s.status()}, nil
}

// ListPodSandbox lists the sandboxes that match the filter, newest first.
func (r *Runtime) ListPodSandbox(_ context.Context, request *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	filter := request.GetFilter()
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := &cri.ListPodSandboxResponse{}
	for _, s := range sorted(r.sandboxes, func(s *sandbox) time.Time { return s.CreatedAt }) {
		if filter.GetId() != "" && filter.GetId() != s.ID ||
			filter.GetState() != nil && filter.GetState().GetState() != s.state() ||
			!selected(filter.GetLabelSelector(), s.Config.M.GetLabels()) {
			continue
		}
		answer.Items = append(answer.Items, &cri.PodSandbox{
			Id: s.ID, Metadata: s.Config.M.GetMetadata(), State: s.state(), CreatedAt: s.CreatedAt.UnixNano(),
			Labels: s.Config.M.GetLabels(), Annotations: s.Config.M.GetAnnotations(),
		})
	}
	return answer, nil
}

func (s *sandbox) state() cri.PodSandboxState {
	if s.Ready {
		return cri.PodSandboxState_SANDBOX_READY
	}
	return cri.PodSandboxState_SANDBOX_NOTREADY
}

func (s *sandbox) status() *cri.PodSandboxStatus {
	out := &cri.PodSandboxStatus{
		Id: s.ID, Metadata: s.Config.M.GetMetadata(), State: s.state(), CreatedAt: s.CreatedAt.UnixNano(),
		Labels: s.Config.M.GetLabels(), Annotations: s.Config.M.GetAnnotations(),
		Network: &cri.PodSandboxNetworkStatus{},
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{
			Options: s.Config.M.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
	if s.IP.IsValid() {
		out.Network.Ip = s.IP.String()
	}
	return out
}

// sandboxName returns the unique name of a sandbox: two attempts with the same number are a
// mistake.
func sandboxName(config *cri.PodSandboxConfig) string {
	m := config.GetMetadata()
	return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
}

func hostNetwork(config *cri.PodSandboxConfig) bool {
	return config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == cri.NamespaceMode_NODE
}

func selected(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// sorted returns the values of a map, newest first.
func sorted[T any](all map[string]T, created func(T) time.Time) []T {
	return slices.SortedFunc(maps.Values(all), func(a, b T) int { return created(b).Compare(created(a)) })
}

func newID() string {
	var id [32]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
