package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/bench/target"
)

const (
	// pageSize is the page size of client-go's lists.
	pageSize = 500
	// listings is the number of lists per measurement, since CPU time has a resolution of 10 ms.
	listings = 10
)

// lists measures LIST in its forms.
func (b *bench) lists(ctx context.Context) error {
	if err := b.fill(ctx, b.listed); err != nil {
		return err
	}
	columns := append([]string{fmt.Sprintf("LIST of %d pods", b.listed)}, b.report.costColumns("ms of CPU")...)
	b.report.Table(fmt.Sprintf("Lists (median of %d)", b.repeats), append(columns, "ms", "MB")...)
	for _, form := range []struct {
		name        string
		contentType string
		opts        metav1.ListOptions
		pages       bool
	}{
		{"JSON", json, metav1.ListOptions{}, false},
		{"protobuf", protobuf, metav1.ListOptions{}, false},
		{"protobuf, resourceVersion 0", protobuf, metav1.ListOptions{ResourceVersion: "0"}, false},
		{"protobuf, by 500", protobuf, metav1.ListOptions{Limit: pageSize}, true},
		{"JSON, by 500", json, metav1.ListOptions{Limit: pageSize}, true},
		{"protobuf, a tenth by label", protobuf, metav1.ListOptions{LabelSelector: "selected=yes"}, false},
		{"protobuf, one by field", protobuf, metav1.ListOptions{FieldSelector: "metadata.name=" + podName(b.listed/2)}, false},
		{"protobuf, none by field", protobuf, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}, false},
	} {
		client, err := b.target.Client(form.contentType)
		if err != nil {
			return err
		}
		var costs []target.Cost
		var bytes int
		err = b.profile(ctx, "list "+form.name, func() error {
			for range b.repeats {
				c, err := b.target.Measure(func() (err error) {
					for range listings {
						if bytes, err = list(ctx, client, form.opts, form.pages); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
				c.Took /= listings
				costs = append(costs, c)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", form.name, err)
		}
		cells := append([]string{form.name}, b.report.costCells(costs, listings, time.Millisecond)...)
		b.report.Row(append(cells, tookCell(costs), strconv.FormatFloat(float64(bytes)/1e6, 'f', 2, 64))...)
	}
	return nil
}

// list reads a list, all its pages if pages is set, and returns its length in bytes. It decodes
// nothing but continue tokens.
func list(ctx context.Context, client *rest.RESTClient, opts metav1.ListOptions, pages bool) (int, error) {
	total := 0
	for {
		result := client.Get().Namespace(namespace).Resource("pods").VersionedParams(&opts, scheme.ParameterCodec).Do(ctx)
		data, err := result.Raw()
		if err != nil {
			return total, err
		}
		total += len(data)
		if !pages {
			return total, nil
		}
		found, err := result.Get()
		if err != nil {
			return total, err
		}
		meta, ok := found.(metav1.ListInterface)
		if holder, is := found.(metav1.ListMetaAccessor); is {
			meta, ok = holder.GetListMeta(), true
		}
		if !ok {
			return total, fmt.Errorf("the response to a list is a %T", found)
		}
		if opts.Continue = meta.GetContinue(); opts.Continue == "" {
			return total, nil
		}
	}
}
