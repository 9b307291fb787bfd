package node

import (
	"testing"
	"time"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{"runtime class", RuntimeClass(), &nodev1.RuntimeClass{ObjectMeta: meta, Handler: "runc"}, []string{"Name", "Handler", "Age"}, []any{"one", "runc", "5m"}},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
