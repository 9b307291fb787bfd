package node

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/bench/sample"
)

// Namespace is where the Services are.
const Namespace = "default"

// writers is the number of concurrent writers.
const writers = 16

// Fill creates the Services with the numbers from from to to, and their endpoints.
func (n *Node) Fill(ctx context.Context, from, to int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := from; i < to; i++ {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err // Thousands more would each tell of it.
			}
			if _, err := n.Client.CoreV1().Services(Namespace).Create(ctx, sample.Service(i), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating a Service: %w", err)
			}
			if _, err := n.Client.DiscoveryV1().EndpointSlices(Namespace).Create(ctx, sample.EndpointSlice(i), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating an EndpointSlice: %w", err)
			}
			return nil
		})
	}
	return group.Wait()
}
