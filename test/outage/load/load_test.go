package load_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/garboard/garboard/test/outage/load"
)

// TestLoadFindsLostWrites uses an API that loses acknowledged writes, or does what it said it could
// not.
func TestLoadFindsLostWrites(t *testing.T) {
	lose := func(verb string) clienttesting.ReactionFunc {
		var count atomic.Int64
		return func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetVerb() != verb || count.Add(1)%5 != 0 {
				return false, nil, nil
			}
			switch a := action.(type) {
			case clienttesting.CreateAction: // updates implement it, too
				return true, a.GetObject(), nil
			default:
				return true, nil, nil
			}
		}
	}
	for _, test := range []struct {
		name  string
		react clienttesting.ReactionFunc
		fault string
	}{
		{name: "no faults", react: func(clienttesting.Action) (bool, runtime.Object, error) { return false, nil, nil }},
		{name: "unknown outcomes", react: func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.GetVerb() != "list" && time.Now().UnixNano()%3 == 0, nil, errors.New("connection refused")
		}},
		{name: "lost creates", react: lose("create"), fault: "is absent, but can only be at"},
		{name: "lost updates", react: lose("update"), fault: "but can only be at"},
		{name: "lost deletes", react: lose("delete"), fault: "but can only be absent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("*", "configmaps", test.react)
			l := load.New(load.Config{Client: client, Namespace: "n", Writers: 3, Rate: 100_000, Seed: 1})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for l.Counts().Acknowledged < 300 {
				<-tick.C
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			err := l.Check(t.Context())
			if (err != nil) != (test.fault != "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("got %v, want %q", err, test.fault)
			}
		})
	}
	// An object that the load did not write is a fault, too.
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "x"}, Data: map[string]string{"state": "7"}})
	if err := load.New(load.Config{Client: client, Namespace: "n", Writers: 1, Rate: 1}).Check(t.Context()); err == nil {
		t.Error("an object that the load did not write is not found")
	}
}
