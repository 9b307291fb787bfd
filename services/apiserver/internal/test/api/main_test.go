// Package api_test tests the API over HTTP: forms of requests and responses, errors, watches, admission,
// subresources, and what the apiserver offers operators.
package api_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
