package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// The queue has one worker, whose first attempt at a key fails; it is drained at the end.
func Example() {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedJitteredRateLimiter(backoff, 0.2))

	work := func(key string) error {
		if q.NumRequeues(key) == 0 && key == "default/web" {
			return errors.New("not yet")
		}
		return nil
	}
	failed := make(chan struct{})
	var workers sync.WaitGroup
	workers.Go(func() {
		for {
			key, shutdown := q.Get()
			if shutdown {
				return
			}
			if err := work(key); err != nil {
				fmt.Println(key, err)
				q.AddRateLimited(key)
				close(failed)
			} else {
				fmt.Println(key, "done")
				q.Forget(key)
			}
			q.Done(key)
		}
	})

	q.Add("default/web")
	q.Add("default/db")
	q.AddAfter("default/later", time.Hour)

	scheduler := q.(workqueue.TypedScheduler[string])
	scheduler.ReplaceAfter("default/later", 20*time.Millisecond)
	<-failed
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := scheduler.Drain(ctx, workqueue.WaitForDelayed); err != nil {
		fmt.Println(err)
	}
	workers.Wait()
	// Unordered output:
	// default/web not yet
	// default/db done
	// default/web done
	// default/later done
}
