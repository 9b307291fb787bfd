package runtime

import (
	"context"
	"fmt"
	"maps"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxRecord caches a sandbox's status. Its addresses do not change while its state does not, so
// a relist costs one call however many sandboxes there are.
type sandboxRecord struct {
	state   cri.PodSandboxState
	sandbox Sandbox
}

// RunSandbox creates and starts a sandbox, including its network, and returns its ID. On failure
// the runtime may keep a sandbox that is not ready; the next relist shows it.
func (c *Client) RunSandbox(ctx context.Context, cfg SandboxConfig) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	answer, err := c.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: c.sandboxConfig(cfg)})
	if err != nil {
		return "", failed("creating the sandbox", err)
	}
	return answer.GetPodSandboxId(), nil
}

// StopSandbox kills everything that runs in the sandbox and releases its network. A sandbox that is
// already stopped or gone is not an error.
func (c *Client) StopSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err := c.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	return gone(failed("stopping the sandbox "+short(id), err))
}

// RemoveSandbox removes a sandbox and all containers in it, stopping them first if they run. A
// missing sandbox is not an error.
func (c *Client) RemoveSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	_, err := c.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	return gone(failed("removing the sandbox "+short(id), err))
}

// Sandbox returns the current state of one sandbox; ErrNotFound if it does not exist.
func (c *Client) Sandbox(ctx context.Context, id string) (Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return Sandbox{}, failed("reading the sandbox "+short(id), err)
	}
	return sandboxOf(answer.GetStatus()), nil
}

// Sandboxes lists the sandboxes with their addresses, including those that are not ready. One that the runtime cannot
// read fails alone: see Sandbox.Err. The maps in the result are shared: do not modify them.
func (c *Client) Sandboxes(ctx context.Context) ([]Sandbox, error) {
	listing, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.runtime.ListPodSandbox(listing, &cri.ListPodSandboxRequest{
		Filter: &cri.PodSandboxFilter{LabelSelector: c.ownLabels()},
	})
	if err != nil {
		return nil, failed("listing the sandboxes", err)
	}
	known := make(map[string]sandboxRecord, len(answer.GetItems()))
	sandboxes := make([]Sandbox, 0, len(answer.GetItems()))
	for _, item := range answer.GetItems() {
		record, ok := c.sandboxRecord(item.GetId())
		if !ok || record.state != item.GetState() {
			read, err := c.Sandbox(ctx, item.GetId())
			if isNotFound(err) {
				continue // removed since it was listed
			}
			if err != nil {
				if !ofOne(err) {
					return nil, fmt.Errorf("listing the sandboxes: %w", err)
				}
				read = listedSandbox(item)
				if read.Ready {
					read.Err = err
					sandboxes = append(sandboxes, read)
					continue
				}
				// It has no addresses any more, so nothing is missing.
			}
			record = sandboxRecord{state: sandboxState(read.Ready), sandbox: read}
		}
		known[item.GetId()] = record
		sandboxes = append(sandboxes, record.sandbox)
	}
	c.mu.Lock()
	c.sandboxes = known
	c.mu.Unlock()
	return sandboxes, nil
}

func (c *Client) sandboxRecord(id string) (sandboxRecord, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	record, ok := c.sandboxes[id]
	return record, ok
}

func sandboxState(ready bool) cri.PodSandboxState {
	if ready {
		return cri.PodSandboxState_SANDBOX_READY
	}
	return cri.PodSandboxState_SANDBOX_NOTREADY
}

// listedSandbox returns what the list says of a sandbox.
func listedSandbox(s *cri.PodSandbox) Sandbox {
	return sandboxOf(&cri.PodSandboxStatus{
		Id: s.GetId(), Metadata: s.GetMetadata(), State: s.GetState(), CreatedAt: s.GetCreatedAt(),
		Labels: s.GetLabels(), Annotations: s.GetAnnotations(),
	})
}

func sandboxOf(s *cri.PodSandboxStatus) Sandbox {
	sandbox := Sandbox{
		ID:          s.GetId(),
		PodUID:      s.GetMetadata().GetUid(),
		PodName:     s.GetMetadata().GetName(),
		Namespace:   s.GetMetadata().GetNamespace(),
		Attempt:     s.GetMetadata().GetAttempt(),
		CreatedAt:   moment(s.GetCreatedAt()),
		Ready:       s.GetState() == cri.PodSandboxState_SANDBOX_READY,
		Labels:      s.GetLabels(),
		Annotations: s.GetAnnotations(),
	}
	namespaces := s.GetLinux().GetNamespaces().GetOptions()
	sandbox.HostNetwork = namespaces.GetNetwork() == cri.NamespaceMode_NODE
	if ip := s.GetNetwork().GetIp(); ip != "" {
		sandbox.IPs = append(sandbox.IPs, ip)
	}
	for _, more := range s.GetNetwork().GetAdditionalIps() {
		sandbox.IPs = append(sandbox.IPs, more.GetIp())
	}
	return sandbox
}

func (c *Client) sandboxConfig(cfg SandboxConfig) *cri.PodSandboxConfig {
	out := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: cfg.Name, Namespace: cfg.Namespace, Uid: cfg.UID, Attempt: cfg.Attempt},
		Hostname:     cfg.Hostname,
		LogDirectory: cfg.LogDirectory,
		Labels:       c.identity(cfg.Labels, cfg, ""),
		Annotations:  cfg.Annotations,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: cfg.CgroupParent,
			Resources:    resources(cfg.Resources),
			Overhead:     resources(cfg.Overhead),
			Sysctls:      cfg.Sysctls,
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions:   namespaceOptions(cfg),
				Privileged:         cfg.Privileged,
				RunAsUser:          int64Value(cfg.RunAsUser),
				RunAsGroup:         int64Value(cfg.RunAsGroup),
				SupplementalGroups: cfg.SupplementalGroups,
				Seccomp:            securityProfile(cfg.Seccomp),
				SelinuxOptions:     seLinux(cfg.SELinux),
			},
		},
	}
	if cfg.DNS != nil {
		out.DnsConfig = &cri.DNSConfig{Servers: cfg.DNS.Servers, Searches: cfg.DNS.Searches, Options: cfg.DNS.Options}
	}
	for _, port := range cfg.PortMappings {
		out.PortMappings = append(out.PortMappings, &cri.PortMapping{
			Protocol: protocol(port.Protocol), ContainerPort: port.ContainerPort, HostPort: port.HostPort, HostIp: port.HostIP,
		})
	}
	return out
}

// identity adds the labels that identify a sandbox or container.
func (c *Client) identity(labels map[string]string, cfg SandboxConfig, container string) map[string]string {
	out := make(map[string]string, len(labels)+5)
	maps.Copy(out, labels)
	out[LabelPodName], out[LabelPodNamespace], out[LabelPodUID] = cfg.Name, cfg.Namespace, cfg.UID
	if container != "" {
		out[LabelContainerName] = container
	}
	maps.Copy(out, c.ownLabels())
	return out
}

func (c *Client) ownLabels() map[string]string {
	if c.node == "" {
		return nil
	}
	return map[string]string{LabelNode: c.node}
}

func namespaceOptions(cfg SandboxConfig) *cri.NamespaceOption {
	options := &cri.NamespaceOption{
		Network: cri.NamespaceMode_POD, Ipc: cri.NamespaceMode_POD, Pid: cri.NamespaceMode_CONTAINER,
		UsernsOptions: &cri.UserNamespace{Mode: cri.NamespaceMode_NODE},
	}
	if cfg.HostNetwork {
		options.Network = cri.NamespaceMode_NODE
	}
	if cfg.HostIPC {
		options.Ipc = cri.NamespaceMode_NODE
	}
	switch {
	case cfg.HostPID:
		options.Pid = cri.NamespaceMode_NODE
	case cfg.SharePID:
		options.Pid = cri.NamespaceMode_POD
	}
	return options
}

func protocol(p Protocol) cri.Protocol {
	switch p {
	case UDP:
		return cri.Protocol_UDP
	case SCTP:
		return cri.Protocol_SCTP
	default:
		return cri.Protocol_TCP
	}
}

func securityProfile(p SecurityProfile) *cri.SecurityProfile {
	switch p.Type {
	case "RuntimeDefault":
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
	case "Localhost":
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: p.LocalhostRef}
	default:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
	}
}

func int64Value(v *int64) *cri.Int64Value {
	if v == nil {
		return nil
	}
	return &cri.Int64Value{Value: *v}
}

// moment converts CRI's nanoseconds to a time; 0 (not happened) becomes the zero time.
func moment(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

func short(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}
