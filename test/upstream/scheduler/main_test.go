package upstream

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain tolerates Kubernetes' logger, which flushes for as long as the process runs.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
