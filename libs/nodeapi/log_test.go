package nodeapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/nodeapi"
)

// TestWire fixes the wire format: node agents and apiservers of two versions communicate.
func TestWire(t *testing.T) {
	request, err := json.Marshal(nodeapi.LogRequest{Namespace: "ns", Pod: "web", UID: "u", Container: "c", Follow: true, TailLines: new(int64)})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"namespace":"ns","pod":"web","uid":"u","container":"c","follow":true,"tailLines":0}`; string(request) != want {
		t.Errorf("got request %s, want %s", request, want)
	}
	var header bytes.Buffer
	if err := (nodeapi.LogHeader{}).Write(&header); err != nil || header.String() != "{}\n" {
		t.Errorf("got header %q (%v)", header.String(), err)
	}
}

func TestHeader(t *testing.T) {
	refused := nodeapi.LogHeader{Status: &metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: "no\nsuch pod"}}
	for _, header := range []nodeapi.LogHeader{{}, refused} {
		var answer bytes.Buffer
		if err := header.Write(&answer); err != nil {
			t.Fatal(err)
		}
		answer.WriteString("line 1\nline 2\n")
		r := bufio.NewReader(&answer)
		got, err := nodeapi.ReadLogHeader(r)
		if err != nil || !apiequality.Semantic.DeepEqual(got, header) {
			t.Errorf("read %+v (%v), want %+v", got, err, header)
		}
		if rest, err := io.ReadAll(r); err != nil || string(rest) != "line 1\nline 2\n" {
			t.Errorf("the log is %q (%v)", rest, err)
		}
	}
	for _, broken := range []string{"", "{", "rubbish\n", "[]\n"} {
		if got, err := nodeapi.ReadLogHeader(bufio.NewReader(strings.NewReader(broken))); err == nil {
			t.Errorf("%q was decoded as %+v", broken, got)
		}
	}
}

// TestEndlessHeader checks that the header that a node sends is limited.
func TestEndlessHeader(t *testing.T) {
	sent := &counter{}
	if _, err := nodeapi.ReadLogHeader(bufio.NewReader(sent)); err == nil {
		t.Error("an endless line was read")
	}
	if most := nodeapi.MaxLogHeader + 2*4096; sent.n > most {
		t.Errorf("%d bytes were read of an endless line, want %d at most", sent.n, most)
	}
}

// counter is an endless line that counts the bytes read.
type counter struct{ n int }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	c.n += len(p)
	return len(p), nil
}
