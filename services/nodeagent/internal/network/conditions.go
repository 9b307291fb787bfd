package network

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/peers"
	"github.com/garboard/garboard/services/nodeagent/internal/podnetwork"
)

// patience is how long a problem lasts before it replaces a condition of the Node that says otherwise. So neither a
// restart of the agent nor one failed attempt, which the kernel's state survives, taints the node.
const patience = time.Minute

// The reasons of NetworkUnavailable. They tell the agent's condition from that of another network.
const (
	reasonWritten = "PodNetworkWritten"
	reasonMissing = "PodNetworkNotWritten"
)

// fault is something that does not work, and since when.
type fault struct {
	err   error
	since time.Time
}

// Conditions returns the conditions of the node that are about its network, and the types of those that it must not
// have, given the present ones. A condition NetworkUnavailable of another network is left alone.
func (n *Network) Conditions(present []corev1.NodeCondition) (wanted []corev1.NodeCondition, gone []corev1.NodeConditionType) {
	now := time.Now()
	if n.cfg.PodNetwork.On {
		unavailable, reached := n.podNetwork()
		wanted = append(wanted, patiently(unavailable, now, present, corev1.ConditionTrue))
		if reached != nil {
			wanted = append(wanted, *reached)
		} else if old := find(present, nodeapi.PeersReachable); old != nil {
			wanted = append(wanted, *old)
		}
	} else {
		gone = append(gone, nodeapi.PeersReachable)
		if old := find(present, corev1.NodeNetworkUnavailable); old != nil && (old.Reason == reasonWritten || old.Reason == reasonMissing) {
			gone = append(gone, old.Type)
		}
	}
	if n.cfg.PodNetwork.On || n.cfg.Proxy.On || n.cfg.DNS.On {
		wanted = append(wanted, patiently(n.parts(now), now, present, corev1.ConditionFalse))
	} else {
		gone = append(gone, nodeapi.NetworkPartsReady)
	}
	return wanted, gone
}

// judged is a condition, and since when what it says is so.
type judged struct {
	corev1.NodeCondition
	since time.Time
}

// patiently returns a condition, or the present one if the new one is bad and not yet old enough.
func patiently(one judged, now time.Time, present []corev1.NodeCondition, bad corev1.ConditionStatus) corev1.NodeCondition {
	old := find(present, one.Type)
	if one.Status == bad && old != nil && old.Status != bad && now.Sub(one.since) < patience {
		return *old
	}
	return one.NodeCondition
}

// podNetwork returns the condition NetworkUnavailable and, once it is known, whether the node reaches others.
func (n *Network) podNetwork() (unavailable judged, reached *corev1.NodeCondition) {
	n.mu.Lock()
	pods, prober, started := n.pods, n.prober, n.started
	n.mu.Unlock()
	status := podnetwork.Status{Problem: errUnconnected, Since: started}
	if pods != nil {
		status = pods.Status()
	}
	unavailable = judged{since: status.Since, NodeCondition: corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: reasonWritten,
		Message: "the node agent has connected the node's pods",
	}}
	if status.Problem != nil {
		unavailable.Status, unavailable.Reason = corev1.ConditionTrue, reasonMissing
		unavailable.Message = bounded("pods get no network: " + status.Problem.Error())
	}
	if prober == nil {
		return unavailable, nil
	}
	return unavailable, reaching(prober.Verdict())
}

// reaching returns the condition for a verdict; nil if it is none yet.
func reaching(v peers.Verdict) *corev1.NodeCondition {
	if !v.Known {
		return nil
	}
	c := &corev1.NodeCondition{
		Type: nodeapi.PeersReachable, Status: corev1.ConditionTrue, Reason: "PeersAnswer", Message: "packets reach other nodes by the way of pods",
	}
	switch {
	case v.Reached && v.Count == 0:
		c.Reason, c.Message = "NoPeers", "no other node has a pod network"
	case !v.Reached:
		names := strings.Join(v.Names, ", ")
		if more := v.Count - len(v.Names); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		c.Status, c.Reason = corev1.ConditionFalse, "NoPeerAnswers"
		c.Message = fmt.Sprintf("reaches none of %d peers that it asks (%s): pods of other nodes cannot be reached; "+
			"Services with endpoints on this node, and the API over NATS, work", v.Count, names)
	}
	return c
}

// parts returns the condition that tells whether each part is ready.
func (n *Network) parts(now time.Time) judged {
	c := judged{since: now, NodeCondition: corev1.NodeCondition{
		Type: nodeapi.NetworkPartsReady, Status: corev1.ConditionTrue, Reason: "PartsReady", Message: "all parts that are switched on are ready",
	}}
	var says []string
	for _, name := range n.Parts() {
		if one := n.fault(name, now); one.err != nil {
			says = append(says, name+": "+one.err.Error())
			if one.since.Before(c.since) {
				c.since = one.since
			}
		}
	}
	if len(says) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "PartNotReady", bounded(strings.Join(says, "; "))
	}
	return c
}

// find returns the present condition of a type; nil if there is none.
func find(present []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	if i := slices.IndexFunc(present, func(c corev1.NodeCondition) bool { return c.Type == kind }); i >= 0 {
		return &present[i]
	}
	return nil
}

// bounded shortens a message.
func bounded(text string) string {
	const most = 1024
	return strings.ToValidUTF8(text[:min(len(text), most)], "?")
}
