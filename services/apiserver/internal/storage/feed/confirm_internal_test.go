package feed

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// still is an etcd in which nothing happens and which reports its progress at once.
type still struct{ Storage }

func (still) History(context.Context) (fabric.History, error)        { return fabric.History{Created: 1}, nil }
func (still) Revision(context.Context) (int64, error)                { return 50, nil }
func (still) Oldest(_ context.Context, atLeast int64) (int64, error) { return max(atLeast, 1), nil }
func (still) Completed(_ *scheme.Kind, record store.Record, _ scheme.Object) ([]byte, error) {
	return record.Raw, nil
}
func (still) Scan(context.Context, *scheme.Kind, int64, func([]store.Record)) error {
	return nil
}

func (still) Follow(ctx context.Context, _ *scheme.Kind, _ int64, progress <-chan struct{}, take func(store.Update) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-progress:
			if err := take(store.Update{Revision: 50}); err != nil {
				return err
			}
		}
	}
}

// TestConfirm checks that Confirm gets etcd's progress without waiting for the feed's next turn,
// together with the window.
func TestConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		quiet := slog.New(slog.DiscardHandler)
		d := NewStepper(Config{Logger: quiet, History: 20, WindowEvents: 10, WindowBytes: 1 << 10}, still{}, scheme.For[*corev1.Pod](scheme.New()))
		f := d.Feed()
		ended := make(chan error, 1)
		go func() { ended <- f.run(ctx) }()
		if err := f.WaitFor(ctx, 0); err != nil {
			t.Fatal(err)
		}
		w, err := f.Watch(ctx, fabric.View{}, 50)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(progressPeriod / 4)
		for len(w.Events()) > 0 {
			<-w.Events()
		}
		began := time.Now()
		f.Confirm()
		batch := <-w.Events()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("etcd's progress came after %v", waited)
		}
		if batch.Revision != 50 || batch.Start != 30 || batch.Head != 30 {
			t.Errorf("got the batch %+v", batch)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
