package respond_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/respond"
)

// TestOneAskerDoesNotStopTheOthers checks that a client whose asks all wait leaves room for others.
func TestOneAskerDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	p := start(t, respond.Config{}, 0)
	p.mustAsk(&watchv1.Ask{Resource: "pods"}, watchv1.Outcome_OUTCOME_WHOLE) // wait until all have been read
	inbox := p.conn.NewInbox()
	hostile := subject.Client{Inbox: p.conn.Client().Inbox, Identity: "hostile"}
	data, err := proto.Marshal(&watchv1.Ask{Resource: "pods", Minimum: 1 << 60, History: p.history})
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan string, 1000)
	sub, err := p.conn.Subscribe(t.Context(), inbox, func(m bus.Message) {
		chunk := &watchv1.Chunk{}
		if proto.Unmarshal(m.Data, chunk) == nil {
			refused <- chunk.GetReason()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	// While the hostile client gets no more slots, others still do.
	for i := range 300 {
		if err := p.conn.PublishRequest(t.Context(), hostile.Ask("", "pods"), inbox, data); err != nil {
			t.Fatal(err)
		}
		if i < 299 {
			continue
		}
		if a := p.ask(&watchv1.Ask{Resource: "pods"}, deadline); a == nil || a.GetOutcome() != watchv1.Outcome_OUTCOME_WHOLE {
			t.Errorf("another asker got %v", a)
		}
	}
	for end := time.After(deadline); ; {
		select {
		case why := <-refused:
			if strings.Contains(why, "too busy") {
				return
			}
		case <-end:
			t.Fatal("300 asks of one asker were processed at once")
		}
	}
}

// TestAskedNamesAreNotLabels checks that names made up by an asker are not kept anywhere.
func TestAskedNamesAreNotLabels(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	p := start(t, respond.Config{Registerer: registry, Authorize: func(context.Context, subject.Client, *watchv1.Ask) error { return nil }}, 0)
	for i := range 5 {
		p.mustAsk(&watchv1.Ask{Group: "made.up", Resource: fmt.Sprintf("thing%d", i)}, watchv1.Outcome_OUTCOME_NOT_FOUND)
	}
	large := &watchv1.Ask{Resource: "pods", Namespace: strings.Repeat("x", 100<<10)}
	if a := p.ask(large, time.Second); a != nil {
		t.Errorf("an ask of 100 KB was answered: %v", a.GetOutcome())
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if strings.HasPrefix(label.GetValue(), "thing") || label.GetValue() == "made.up" {
					t.Fatalf("%s has the label %s=%q", family.GetName(), label.GetName(), label.GetValue())
				}
			}
		}
	}
}
