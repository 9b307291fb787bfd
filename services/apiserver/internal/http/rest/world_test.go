package rest_test

import (
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
)

// world is the handler over HTTP, with what the tests of watches need.
type world struct{ *resttest.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{resttest.New(t)}
}
