package rbac

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
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
		{"role", Role(), &rbacv1.Role{ObjectMeta: meta}, []string{"Name", "Created At"}, []any{"one", "2030-01-01T11:55:00Z"}},
		{
			"role binding", RoleBinding(), &rbacv1.RoleBinding{
				ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
				Subjects: []rbacv1.Subject{
					{Kind: "User", Name: "ann"}, {Kind: "User", Name: "bob"}, {Kind: "Group", Name: "devs"},
					{Kind: "ServiceAccount", Namespace: "ns", Name: "bot"},
				},
			},
			[]string{"Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*"},
			[]any{"one", "ClusterRole/view", "5m", "ann, bob", "devs", "ns/bot"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
