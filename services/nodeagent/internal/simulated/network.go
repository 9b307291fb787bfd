package simulated

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Dial opens a connection to a pod of this runtime, for probes. Nothing listens at the pods'
// addresses, so the runtime answers for them on every port: over HTTP with the status in the
// annotation http-status (200 if absent), and over gRPC as healthy. A pod without a running
// container refuses the connection. Other addresses are dialled for real.
func (r *Runtime) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	target, err := netip.ParseAddrPort(address)
	if err != nil || !r.cfg.PodCIDR.Contains(target.Addr()) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, address)
	}
	if !r.answers(target.Addr()) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(target), Err: syscall.ECONNREFUSED}
	}
	return r.pods.Dial(ctx, target.Addr())
}

// answers reports whether a container runs in the pod with this address.
func (r *Runtime) answers(address netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(time.Now())
	s := r.sandboxAt(address)
	if s == nil {
		return false
	}
	for _, c := range r.containersOf(s.ID) {
		if c.State == cri.ContainerState_CONTAINER_RUNNING {
			return true
		}
	}
	return false
}

func (r *Runtime) sandboxAt(address netip.Addr) *sandbox {
	for _, s := range r.sandboxes {
		if s.IP == address {
			return s
		}
	}
	return nil
}

// about returns the name of the pod with an address, and the status that it answers with over HTTP.
func (r *Runtime) about(address netip.Addr) (name string, code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxAt(address)
	if s == nil {
		return "", http.StatusOK
	}
	code = http.StatusOK
	if text, ok := annotation(s.Config.M.GetAnnotations(), keyHTTPStatus, ""); ok {
		code, _ = strconv.Atoi(text) // RunPodSandbox has checked it
	}
	return s.Config.M.GetMetadata().GetName(), code
}
