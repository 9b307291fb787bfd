package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/relay"
)

// dialTime bounds the dialing of a port.
const dialTime = 10 * time.Second

// dial connects to a port of a pod, at the address at which the runtime says that it is.
func (s *Server) dial(w http.ResponseWriter, r *http.Request) {
	pod := s.pod(r)
	if pod == nil {
		refuse(w, apierrors.NewNotFound(corev1.Resource("pods"), r.PathValue("pod")))
		return
	}
	address, err := s.addressOf(pod, r.URL.Query().Get(nodeapi.Port))
	if err != nil {
		refuse(w, err)
		return
	}
	dialing, cancel := context.WithTimeout(r.Context(), dialTime)
	conn, err := s.cfg.Dial(dialing, "tcp", address)
	cancel()
	if err != nil {
		refuse(w, apierrors.NewServiceUnavailable(err.Error()))
		return
	}
	defer func() { _ = conn.Close() }()
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", nodeapi.DialProtocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // The response has begun.
	}
	defer func() { _ = client.Close() }()
	defer context.AfterFunc(r.Context(), func() { _ = errors.Join(conn.Close(), client.Close()) })()
	log := s.cfg.Logger.With("path", r.URL.Path, "address", address)
	log.Debug("connected with a pod")
	relay.Both(conn, client, buffered)
	log.Debug("the connection with a pod has ended")
}

// addressOf returns the address of a port of a pod, whose number a client gave.
func (s *Server) addressOf(pod *corev1.Pod, port string) (string, error) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return "", apierrors.NewBadRequest(fmt.Sprintf("port %q is not a number from 1 to 65535", port))
	}
	ip := s.cfg.NodeIP
	if !pod.Spec.HostNetwork {
		ips := s.cfg.State(string(pod.UID)).IPs()
		if len(ips) == 0 {
			return "", apierrors.NewServiceUnavailable(fmt.Sprintf("pod %s has no address yet", pod.Name))
		}
		ip = ips[0]
	}
	address, err := netip.ParseAddr(ip)
	if err != nil || !address.Unmap().IsGlobalUnicast() {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("pod %s has the address %q, at which it cannot be reached", pod.Name, ip))
	}
	return net.JoinHostPort(ip, strconv.FormatUint(number, 10)), nil
}
