package apiserver_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// TestDeletedAccountIsRefused: the asks of a service account that was deleted, and recreated under
// its name, are refused although its connection and its role still exist.
func TestDeletedAccountIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	cfg := s.account(t, "reader")
	s.grant(t, "reader")
	conn := s.bus.ConnectAs(cfg)
	ask := &watchv1.Ask{Resource: "configmaps", Namespace: "default"}
	eventually(t, "the right is in force", func() bool {
		outcome, _ := asked(t, conn, ask)
		return outcome == watchv1.Outcome_OUTCOME_WHOLE
	})
	if err := typed(t, s.admin()).CoreV1().ServiceAccounts("default").Delete(t.Context(), "reader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused := func() bool {
		outcome, why := asked(t, conn, ask)
		return outcome == watchv1.Outcome_OUTCOME_FORBIDDEN && strings.Contains(why, "has been deleted")
	}
	eventually(t, "the next ask is refused", refused)
	s.account(t, "reader")
	if !refused() {
		t.Error("a recreated account of the same name is not refused")
	}
}
