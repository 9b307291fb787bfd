package node

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
)

// DefaultLeaseDuration is how long a renewed Lease holds (the kubelet's nodeLeaseDurationSeconds).
const DefaultLeaseDuration = 40 * time.Second

// renewalsPerDuration is how often a Lease is renewed while one renewal holds (the kubelet's
// nodeLeaseRenewIntervalFraction).
const renewalsPerDuration = 4

// LeaseSeconds returns how long a renewed Lease of the node holds.
func (n *Node) LeaseSeconds() int32 { return int32(n.cfg.LeaseDuration / time.Second) }

// renew renews the node's Lease until ctx ends.
func (n *Node) renew(ctx context.Context) {
	leases := client.Of[*coordinationv1.Lease](n.cfg.Client)
	var held *coordinationv1.Lease
	for {
		var err error
		wait := n.cfg.LeaseDuration / renewalsPerDuration
		if held, err = n.renewOnce(ctx, leases, held); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("renewing the node's lease failed", "node", n.cfg.Name, "err", err)
			held, wait = nil, min(wait, time.Second)
		}
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// renewOnce writes the Lease, based on the version last seen.
func (n *Node) renewOnce(ctx context.Context, leases client.Resource[*coordinationv1.Lease],
	held *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	var err error
	if held == nil {
		held, err = leases.Get(ctx, corev1.NamespaceNodeLease, n.cfg.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return leases.Create(ctx, n.lease(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.cfg.Name},
			}), metav1.CreateOptions{})
		}
		if err != nil {
			return nil, err
		}
	}
	return leases.Update(ctx, n.lease(held.DeepCopy()), metav1.UpdateOptions{})
}

func (n *Node) lease(l *coordinationv1.Lease) *coordinationv1.Lease {
	seconds, now := n.LeaseSeconds(), metav1.NowMicro()
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &n.cfg.Name, &seconds, &now
	if uid := n.uid(); uid != "" {
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.cfg.Name, UID: uid}}
	}
	return l
}
