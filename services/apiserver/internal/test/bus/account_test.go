package bus_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestDeletedAccountIsRefused: the asks of a service account that was deleted, and recreated under
// its name, are refused although its connection and its role still exist.
func TestDeletedAccountIsRefused(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	cfg := newAccount(t, s, "reader")
	grant(t, s, "reader")
	conn := s.Bus.ConnectAs(cfg)
	ask := &watchv1.Ask{Resource: "configmaps", Namespace: "default"}
	harness.Eventually(t, "the right is in force", func() bool {
		outcome, _ := harness.Asked(t, conn, ask)
		return outcome == watchv1.Outcome_OUTCOME_WHOLE
	})
	if err := harness.Typed(t, s.Admin()).CoreV1().ServiceAccounts("default").Delete(t.Context(), "reader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused := func() bool {
		outcome, why := harness.Asked(t, conn, ask)
		return outcome == watchv1.Outcome_OUTCOME_FORBIDDEN && strings.Contains(why, "has been deleted")
	}
	harness.Eventually(t, "the next ask is refused", refused)
	newAccount(t, s, "reader")
	if !refused() {
		t.Error("a recreated account of the same name is not refused")
	}
}
