// Package access_test tests who may do what: authentication, authorization, audit, and fairness between users.
package access_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
