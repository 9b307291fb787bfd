package callout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/embedded"
)

// TestNATSIgnoresLimitsOfClaims checks that nats-server ignores a subscription limit in the claims
// that an apiserver signs, so that only the server's own configuration limits subscriptions. When
// this test fails, the server honours it: then set a limit in the claims, and document it in
// docs/explanation/bus.md.
func TestNATSIgnoresLimitsOfClaims(t *testing.T) {
	seed, err := callout.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	user, err := callout.NewUser()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := callout.ParseKeys(seed, user)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	server := bustest.NewServerWith(t, embedded.Config{Auth: keys.Auth()})
	api := server.ConnectAs(bus.Config{Name: "apiserver", Seed: keys.UserSeed()})
	if _, err := api.Subscribe(t.Context(), "$SYS.REQ.USER.AUTH", func(m bus.Message) {
		request, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
		if err != nil {
			t.Error(err)
			return
		}
		claims := jwt.NewUserClaims(request.UserNkey)
		claims.Name, claims.Audience, claims.Expires = "jane", "$G", time.Now().Add(time.Hour).Unix()
		claims.Subs = 2
		response := jwt.NewAuthorizationResponseClaims(request.UserNkey)
		response.Audience = request.Server.ID
		if response.Jwt, err = claims.Encode(issuer); err == nil {
			var text string
			if text, err = response.Encode(issuer); err == nil {
				err = api.Publish(t.Context(), m.Reply, []byte(text))
			}
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := api.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect(server.URL(), nats.Token("jane"), nats.Timeout(deadline))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 10 {
		if _, err := c.SubscribeSync(fmt.Sprint("s.", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.FlushTimeout(deadline); err != nil {
		t.Fatal(err)
	}
	if err := c.LastError(); err != nil {
		t.Errorf("the limit in the claims is honoured: %v", err)
	}
}
