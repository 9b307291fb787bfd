package clientgo_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/informer/clientgo"
)

// A program with client-go's informers: only the line with Wrap is new.
func Example() {
	program := func(ctx context.Context, config *rest.Config, conn *bus.Conn) error {
		config, err := clientgo.Wrap(ctx, config, conn)
		if err != nil {
			return err
		}
		clients, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactory(clients, 10*time.Minute)
		_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if pod, ok := obj.(*corev1.Pod); ok {
					fmt.Println("there is", pod.Name)
				}
			},
		})
		if err != nil {
			return err
		}
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		<-ctx.Done()
		return nil
	}
	_ = program
}
