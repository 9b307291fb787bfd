package node

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/garboard/garboard/bench/sample"
)

func TestFill(t *testing.T) {
	n := &Node{Client: fake.NewClientset()}
	for _, part := range [][2]int{{0, 20}, {20, 50}, {50, 50}} {
		if err := n.Fill(t.Context(), part[0], part[1]); err != nil {
			t.Fatal(err)
		}
	}
	services, err := n.Client.CoreV1().Services(Namespace).List(t.Context(), metav1.ListOptions{})
	slices, sliceErr := n.Client.DiscoveryV1().EndpointSlices(Namespace).List(t.Context(), metav1.ListOptions{})
	if err = errors.Join(err, sliceErr); err != nil || len(services.Items) != 50 || len(slices.Items) != 50 {
		t.Fatalf("there are %d Services and %d EndpointSlices: %v", len(services.Items), len(slices.Items), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Fill(ended, 50, 60); err == nil {
		t.Error("it went on although the context had ended")
	}
	if _, err := n.Client.CoreV1().Services(Namespace).Get(t.Context(), sample.ServiceName(60), metav1.GetOptions{}); err == nil {
		t.Error("there is a Service too many")
	}
	if err := n.Fill(t.Context(), 49, 51); err == nil {
		t.Error("a Service that exists was no error")
	}
}
