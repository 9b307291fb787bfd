package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// maxOutput bounds how much of a response is shown (Kubernetes: 10 KB).
const maxOutput = 10 << 10

// Execer runs a command in a container.
type Execer interface {
	ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, exit int32, err error)
}

// Dial opens a connection to a pod.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// target is the container being probed.
type target struct {
	pod       *corev1.Pod
	container *corev1.Container
	id, ip    string
}

// once probes one time. output describes what a failed probe found; err means that the probe could
// not be performed.
func once(ctx context.Context, exec Execer, dial Dial, t target, probe *corev1.Probe) (ok bool, output string, err error) {
	timeout := max(time.Second, time.Duration(probe.TimeoutSeconds)*time.Second)
	switch {
	case probe.Exec != nil:
		return execOnce(ctx, exec, t, probe.Exec, timeout)
	case probe.HTTPGet != nil:
		return httpOnce(ctx, dial, t, probe.HTTPGet, timeout)
	case probe.TCPSocket != nil:
		port, err := portOf(t.container, probe.TCPSocket.Port)
		if err != nil {
			return false, "", err
		}
		return tcpOnce(ctx, dial, net.JoinHostPort(orHost(probe.TCPSocket.Host, t.ip), strconv.Itoa(port)), timeout)
	case probe.GRPC != nil:
		return grpcOnce(ctx, dial, net.JoinHostPort(t.ip, strconv.Itoa(int(probe.GRPC.Port))), probe.GRPC.Service, timeout)
	}
	return false, "", fmt.Errorf("missing probe handler for %s:%s", t.pod.Name, t.container.Name)
}

func execOnce(ctx context.Context, exec Execer, t target, action *corev1.ExecAction, timeout time.Duration) (bool, string, error) {
	stdout, stderr, exit, err := exec.ExecSync(ctx, t.id, action.Command, timeout)
	if errors.Is(err, runtime.ErrTimeout) {
		return false, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(action.Command, " "), timeout), nil
	}
	if err != nil {
		return false, "", err
	}
	return exit == 0, cut(string(stdout) + string(stderr)), nil
}

func httpOnce(ctx context.Context, dial Dial, t target, action *corev1.HTTPGetAction, timeout time.Duration) (bool, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := Request(ctx, t.container, action, t.ip)
	if err != nil {
		return false, "", err
	}
	response, err := Client(dial).Do(request)
	if err != nil {
		return false, err.Error(), nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	if err != nil {
		return false, err.Error(), nil
	}
	if response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusBadRequest {
		return true, cut(string(body)), nil
	}
	return false, fmt.Sprintf("HTTP probe failed with statuscode: %d", response.StatusCode), nil
}

// maxRedirects is how many redirects a probe or hook follows (the limit of net/http).
const maxRedirects = 10

// Client returns an HTTP client for httpGet probes and hooks; dial is the network when nil. It
// follows redirects on the same host only: another host shows nothing about this container, and a
// container must not choose which hosts the node contacts. Any other redirect is returned as the
// response.
func Client(dial Dial) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			// Kubernetes does not verify the certificates of pods here.
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
			DisableKeepAlives: true,
			Proxy:             nil,
			DialContext:       dial,
			// A custom dialler answers for simulated pods, which have no certificates.
			DialTLSContext: dial,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse
			}
			if len(via) >= maxRedirects {
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}
}

// Request returns the request of an httpGet probe or hook; ip is the pod's.
func Request(ctx context.Context, container *corev1.Container, action *corev1.HTTPGetAction, ip string) (*http.Request, error) {
	port, err := portOf(container, action.Port)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(action.Path)
	if err != nil {
		u = &url.URL{Path: action.Path}
	}
	u.Scheme = strings.ToLower(string(action.Scheme))
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	u.Host = net.JoinHostPort(orHost(action.Host, ip), strconv.Itoa(port))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, header := range action.HTTPHeaders {
		if strings.EqualFold(header.Name, "Host") {
			request.Host = header.Value
		}
		request.Header.Add(header.Name, header.Value)
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "kube-probe/1.37")
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "*/*")
	}
	return request, nil
}

func tcpOnce(ctx context.Context, dial Dial, address string, timeout time.Duration) (bool, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return false, err.Error(), nil
	}
	// An open connection is all the probe checks.
	_ = conn.Close()
	return true, "", nil
}

func grpcOnce(ctx context.Context, dial Dial, address string, service *string, timeout time.Duration) (bool, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("kube-probe/1.37"),
	}
	if dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return false, "", err
	}
	defer func() { _ = conn.Close() }()
	request := &healthpb.HealthCheckRequest{}
	if service != nil {
		request.Service = *service
	}
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, request)
	switch {
	case err == nil && answer.GetStatus() == healthpb.HealthCheckResponse_SERVING:
		return true, "service healthy", nil
	case err == nil:
		return false, fmt.Sprintf("service unhealthy (responded with %q)", answer.GetStatus()), nil
	case status.Code(err) == codes.Unimplemented:
		return false, fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", status.Convert(err).Message()), nil
	case status.Code(err) == codes.DeadlineExceeded:
		return false, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout), nil
	}
	return false, fmt.Sprintf("error: health rpc probe failed: %v", err), nil
}

// portOf returns the number of a port given by number or by name.
func portOf(container *corev1.Container, port intstr.IntOrString) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range container.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
		if number == 0 {
			return 0, fmt.Errorf("port %s not found", port.StrVal)
		}
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", number)
	}
	return number, nil
}

func orHost(host, ip string) string {
	if host != "" {
		return host
	}
	return ip
}

func cut(s string) string {
	if len(s) > maxOutput {
		return s[:maxOutput]
	}
	return s
}
