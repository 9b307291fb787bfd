package serve_test

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/bushttptest"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// TestHostileMessages checks that malformed messages, at either end, affect only their sender.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	nats := bustest.NewServer(t)
	bushttptest.Serve(t, nats.Connect(), bushttptest.Impatience, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		if r.URL.Path == "/stream" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	transport := bushttptest.Open(t, nats.Connect(), bushttptest.Patience)
	client := &http.Client{Transport: transport}
	stream, err := client.Do(bushttptest.Request(t, "GET", "http://api/stream", nil))
	if err != nil {
		t.Fatal(err)
	}
	hostile := nats.Connect()
	me := hostile.Client()
	foreign := make(chan bus.Message, 1000)
	victim := nats.Connect()
	if _, err := victim.Subscribe(t.Context(), victim.NewInbox()+".>", func(m bus.Message) { foreign <- m }); err != nil {
		t.Fatal(err)
	}
	// The inboxes that the apiserver names to a well-behaved client.
	inbox := hostile.NewInbox()
	addresses := make(chan string, 1000)
	if _, err := hostile.Subscribe(t.Context(), inbox, func(m bus.Message) {
		select {
		case addresses <- m.Reply:
		default:
		}
	}); err != nil {
		t.Fatal(err)
	}
	proper := append([]byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, binary.BigEndian.AppendUint32(nil, 36)...)
	proper = append(proper, "POST /stream HTTP/1.1\r\nHost: h\r\n\r\n\r\n"[:36]...)
	source := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		data := append([]byte(nil), proper...)
		for range source.IntN(4) {
			data[source.IntN(len(data))] = byte(source.IntN(256))
		}
		data = data[:len(data)-source.IntN(3)*source.IntN(len(data))/2]
		reply := inbox
		if i%3 == 0 {
			reply = victim.NewInbox() + ".x"
		}
		if err := hostile.PublishRequest(t.Context(), me.API(), reply, data); err != nil {
			t.Fatal(err)
		}
		select {
		case at := <-addresses:
			if at == "" {
				continue
			}
			garbage := make([]byte, source.IntN(60))
			for j := range garbage {
				garbage[j] = byte(source.IntN(8))
			}
			if err := hostile.PublishRequest(t.Context(), at, reply, garbage); err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	if err := hostile.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if response, _ := bushttptest.Do(t, client, bushttptest.Request(t, "GET", "http://api/", nil)); response.StatusCode != http.StatusOK {
			t.Errorf("got %s", response.Status)
		}
	}
	if len(foreign) > 0 {
		t.Errorf("%d messages reached an inbox that asked for nothing", len(foreign))
	}
	if err := stream.Body.Close(); err != nil {
		t.Error(err)
	}
}
