package network

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/peers"
)

// said returns conditions as "TYPE=STATUS REASON", joined.
func said(conditions []corev1.NodeCondition) string {
	var texts []string
	for _, c := range conditions {
		texts = append(texts, string(c.Type)+"="+string(c.Status)+" "+c.Reason)
	}
	return strings.Join(texts, ", ")
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason}
}

// TestConditionsBeforeTheStart: a new node has no network; one whose agent restarts keeps what it says for a while.
func TestConditionsBeforeTheStart(t *testing.T) { synctest.Test(t, testConditionsBeforeTheStart) }

func testConditionsBeforeTheStart(t *testing.T) {
	before := []corev1.NodeCondition{
		condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, reasonWritten),
		condition(nodeapi.PeersReachable, corev1.ConditionTrue, "PeersAnswer"),
		condition(nodeapi.NetworkPartsReady, corev1.ConditionTrue, "PartsReady"),
	}
	n := New(Config{PodNetwork: PodNetwork{On: true}, Proxy: Proxy{On: true}, Registerer: prometheus.NewRegistry()})
	const bad = "NetworkUnavailable=True PodNetworkNotWritten, "
	const unready = nodeapi.NetworkPartsReady + "=False PartNotReady"
	if wanted, gone := n.Conditions(nil); said(wanted) != bad+unready || len(gone) != 0 {
		t.Errorf("a new node: %s; gone: %v", said(wanted), gone)
	}
	if wanted, gone := n.Conditions(before); said(wanted) != said(before) || len(gone) != 0 {
		t.Errorf("a restart: %s; gone: %v", said(wanted), gone)
	}
	time.Sleep(patience)
	if wanted, _ := n.Conditions(before); said(wanted) != bad+said(before[1:2])+", "+unready {
		t.Errorf("after a minute: %s", said(wanted))
	}
}

// TestConditionsOfOthers: without the pod network only conditions of the agent's own making go.
func TestConditionsOfOthers(t *testing.T) {
	n := New(Config{})
	for reason, want := range map[string]bool{reasonWritten: true, reasonMissing: true, "FlannelIsUp": false, "CalicoIsUp": false, "": false} {
		wanted, gone := n.Conditions([]corev1.NodeCondition{condition(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, reason)})
		if len(wanted) != 0 || slices.Contains(gone, corev1.NodeNetworkUnavailable) != want {
			t.Errorf("%q: wanted %v, gone %v", reason, wanted, gone)
		}
	}
	if _, gone := n.Conditions(nil); !slices.Contains(gone, nodeapi.PeersReachable) || !slices.Contains(gone, nodeapi.NetworkPartsReady) {
		t.Errorf("gone: %v", gone)
	}
	n = New(Config{DNS: DNS{On: true}, Registerer: prometheus.NewRegistry()})
	if wanted, gone := n.Conditions(nil); len(wanted) != 1 || wanted[0].Type != nodeapi.NetworkPartsReady || !slices.Contains(gone, nodeapi.PeersReachable) {
		t.Errorf("with DNS alone: %v, gone %v", wanted, gone)
	}
}

// TestPartsReady: the condition names each part that is not ready, and a short failure does not show.
func TestPartsReady(t *testing.T) { synctest.Test(t, testPartsReady) }

func testPartsReady(t *testing.T) {
	registry := prometheus.NewRegistry()
	n := New(Config{Proxy: Proxy{On: true}, DNS: DNS{On: true}, Registerer: registry})
	var dns error
	n.runs(proxyPart, func() error { return nil })
	n.runs(dnsPart, func() error { return dns })
	good, _ := n.Conditions(nil)
	if said(good) != nodeapi.NetworkPartsReady+"=True PartsReady" {
		t.Errorf("got %s", said(good))
	}
	dns = errors.New("no address")
	if got, _ := n.Conditions(good); said(got) != said(good) {
		t.Errorf("at once: %s", said(got))
	}
	time.Sleep(patience)
	got, _ := n.Conditions(good)
	if said(got) != nodeapi.NetworkPartsReady+"=False PartNotReady" || got[0].Message != "DNS: no address" {
		t.Errorf("after a minute: %+v", got)
	}
	dns = nil
	if got, _ := n.Conditions(got); said(got) != said(good) {
		t.Errorf("after the repair: %s", said(got))
	}
	dns = errors.New("again")
	if got, _ := n.Conditions(good); said(got) != said(good) {
		t.Errorf("a second failure shows at once: %s", said(got))
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
		t.Fatalf("the metrics are %v, %v", families, err)
	}
	for _, one := range families[0].GetMetric() {
		if part := one.GetLabel()[0].GetValue(); (one.GetGauge().GetValue() == 1) != (part == proxyPart) {
			t.Errorf("%s is %v", part, one.GetGauge().GetValue())
		}
	}
}

func TestReaching(t *testing.T) {
	for _, tc := range []struct {
		verdict        peers.Verdict
		status         corev1.ConditionStatus
		reason, saying string
	}{
		{peers.Verdict{Known: true, Reached: true}, "True", "NoPeers", "no other node"},
		{peers.Verdict{Known: true, Reached: true, Count: 2, Names: []string{"b", "c"}}, "True", "PeersAnswer", "packets reach other nodes"},
		{peers.Verdict{Known: true, Count: 2, Names: []string{"b", "c"}}, "False", "NoPeerAnswers", "none of 2 peers that it asks (b, c): pods"},
		{peers.Verdict{Known: true, Count: 12, Names: []string{"b", "c", "d"}}, "False", "NoPeerAnswers", "(b, c, d and 9 more): pods of other"},
	} {
		if c := reaching(tc.verdict); c == nil || c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.saying) {
			t.Errorf("%+v: got %+v", tc.verdict, c)
		}
	}
	if c := reaching(peers.Verdict{Count: 3}); c != nil {
		t.Errorf("before there is a verdict: %+v", c)
	}
}
