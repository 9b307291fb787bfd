package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
	"github.com/garboard/garboard/services/nodeagent/internal/stats"
	"github.com/garboard/garboard/test/containers/harness"
)

// stats returns the Provider of the fabric's node.
func (f *fabric) stats() *stats.Provider {
	return stats.New(stats.Config{
		NodeName: nodeName, Runtime: f.runtime, Pods: f.states, Wanted: func(uid string) *corev1.Pod { return f.pod("", strings.TrimPrefix(uid, "uid-")) }, DataDir: f.logs, Proc: os.DirFS("/proc"),
		Logger: slog.New(slog.DiscardHandler),
	})
}

// get returns what the node answers to a request for a path, over the bus.
func (f *fabric) get(path string) (string, error) {
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.front+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return string(body), nil
}

// summarized checks the use of the only pod of a fabric.
func (f *fabric) summarized(query string, check func(*statsapi.Summary) error) {
	f.t.Helper()
	f.eventually("the summary"+query, func() error {
		text, err := f.get("/stats/summary" + query)
		if err != nil {
			return err
		}
		summary := &statsapi.Summary{}
		if err := json.Unmarshal([]byte(text), summary); err != nil {
			return err
		}
		node := summary.Node
		if node.NodeName != nodeName || node.CPU.UsageCoreNanoSeconds == nil || node.Memory.WorkingSetBytes == nil || node.CPU.Time.IsZero() {
			return fmt.Errorf("the node is %s", text)
		}
		if len(summary.Pods) != 1 || summary.Pods[0].PodRef.Name != "busy" || len(summary.Pods[0].Containers) != 1 {
			return fmt.Errorf("the pods are %s", text)
		}
		return check(summary)
	})
}

// TestSummary asks for what is used on a simulated node, over the bus.
func TestSummary(t *testing.T) {
	t.Parallel()
	f := newFabric(t)
	f.run("busy", map[string]string{simulated.AnnotationPrefix + "cpu-usage": "250m", simulated.AnnotationPrefix + "memory-usage": "64Mi"})
	for query, full := range map[string]bool{"": true, "?only_cpu_and_memory=true": false, "?only_cpu_and_memory=maybe": true} {
		f.summarized(query, func(s *statsapi.Summary) error {
			c := s.Pods[0].Containers[0]
			if *c.CPU.UsageNanoCores != 25e7 || *c.Memory.WorkingSetBytes != 64<<20 || *s.Pods[0].CPU.UsageNanoCores != 25e7 {
				return fmt.Errorf("the container uses %+v and %+v", c.CPU, c.Memory)
			}
			if (s.Node.Fs != nil) != full || (c.Rootfs != nil) != full {
				return fmt.Errorf("the file system is %+v", s.Node.Fs)
			}
			return nil
		})
	}
	broken := New(Config{Stats: failing{}, Logger: slog.New(slog.DiscardHandler)})
	if got := ask(t, broken, http.MethodGet, "/stats/summary", ""); got.Code != http.StatusInternalServerError || got.Body.String() != "Internal Error: the kernel is gone" {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
}

// TestSummaryOfContainers asks for what a real container uses.
func TestSummaryOfContainers(t *testing.T) {
	containers := harness.Start(t)
	f := newFabricOn(t, containers.Endpoint(), containers.Cgroup())
	f.runImage("busy", "busybox", nil, "cat")
	f.summarized("", func(s *statsapi.Summary) error {
		c := s.Pods[0].Containers[0]
		if *c.CPU.UsageCoreNanoSeconds == 0 || *c.Memory.WorkingSetBytes == 0 || c.Rootfs.UsedBytes == nil || s.Node.Runtime.ImageFs.CapacityBytes == nil {
			return fmt.Errorf("the container uses %+v, %+v and %+v", c.CPU, c.Memory, c.Rootfs)
		}
		return nil
	})
}

// failing cannot tell what is used.
type failing struct{}

func (failing) Summary(context.Context, bool) (*statsapi.Summary, error) {
	return nil, errors.New("the kernel is gone")
}
