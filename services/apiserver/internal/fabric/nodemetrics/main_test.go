package nodemetrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is what the apiserver knows, and the agents of the nodes.
type cluster struct {
	nodes, pods []scheme.Object
	answer      func(ctx context.Context, node string) (string, error)

	mu         sync.Mutex
	asked      map[string]int
	now, least int // questions under way, and the most of them
	logs       bytes.Buffer
}

func (c *cluster) start() *Metrics {
	c.asked = map[string]int{}
	return New(Config{
		To:    func(node string) http.RoundTripper { return agent{c, node} },
		Nodes: func(_ context.Context, _, name string) ([]scheme.Object, error) { return named(c.nodes, "", name), nil },
		Pods: func(_ context.Context, namespace, name string) ([]scheme.Object, error) {
			return named(c.pods, namespace, name), nil
		},
		Logger: slog.New(slog.NewTextHandler(&c.logs, nil)),
	})
}

func named(all []scheme.Object, namespace, name string) []scheme.Object {
	var found []scheme.Object
	for _, obj := range all {
		if (namespace == "" || obj.GetNamespace() == namespace) && (name == "" || obj.GetName() == name) {
			found = append(found, obj)
		}
	}
	return found
}

// agent is the round tripper to the agent of a node.
type agent struct {
	*cluster
	node string
}

func (a agent) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.asked[a.node]++
	a.now++
	a.least = max(a.least, a.now)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.now--
		a.mu.Unlock()
	}()
	if r.URL.String() != path || r.Method != http.MethodGet {
		return nil, fmt.Errorf("asked for %s %s", r.Method, r.URL)
	}
	body, err := a.answer(r.Context(), a.node)
	if code, ok := errors.AsType[status](err); ok {
		return &http.Response{StatusCode: int(code), Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// status is an error of an agent.
type status int

func (s status) Error() string { return http.StatusText(int(s)) }

// never is the answer of a node that does not answer.
func never(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

func everything(metav1.Object) bool { return true }

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}}
}

// running returns a pod on a node.
func running(namespace, name, on string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: on}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
	}
	return p
}

// stats are those of a node or a container.
func stats(name string, at time.Time, nanoCores, bytes any) string {
	return fmt.Sprintf(`{"name":%q,"nodeName":"n","startTime":"2020-01-01T00:00:00Z","cpu":{"time":%q,"usageNanoCores":%v,"usageCoreNanoSeconds":7},
		"memory":{"time":%q,"workingSetBytes":%v}}`, name, at.Format(time.RFC3339), nanoCores, at.Format(time.RFC3339), bytes)
}

func podStats(namespace, name, uid string, containers ...string) string {
	return fmt.Sprintf(`{"podRef":{"namespace":%q,"name":%q,"uid":%q},"startTime":null,"containers":[%s]}`, namespace, name, uid, strings.Join(containers, ","))
}

func summaryOf(node string, pods ...string) string {
	return fmt.Sprintf(`{"node":%s,"pods":[%s]}`, node, strings.Join(pods, ","))
}
