// Command siteoperator is an operator as users of controller-runtime write it, to judge the plane
// with: a kind in two versions that a webhook converts, rules in CEL, webhooks that fill in and check
// what a schema cannot, a status, and a finalizer. With -nats-servers, it is fed over the bus.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/clientgo"
	v1 "github.com/garboard/garboard/test/operators/siteoperator/v1"
	"github.com/garboard/garboard/test/operators/siteoperator/v1beta1"
)

// settings has the flags.
type settings struct {
	natsServers, registry, certDir, namespace string
	port                                      int
}

func main() {
	var s settings
	flag.StringVar(&s.natsServers, "nats-servers", "", "URLs of NATS, separated by commas; if empty, all goes over HTTP")
	flag.StringVar(&s.registry, "registry", "", "folder where the hosts of sites are registered")
	flag.StringVar(&s.certDir, "cert-dir", "", "folder with tls.crt and tls.key of the webhooks")
	flag.StringVar(&s.namespace, "namespace", "default", "namespace of the operator's Lease")
	flag.IntVar(&s.port, "port", 0, "port of the webhooks")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctrl.SetupSignalHandler(), s, log); err != nil {
		log.Error("the operator ended", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, log *slog.Logger) error {
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	config, err := ctrl.GetConfig() // It declares the flag -kubeconfig.
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if s.natsServers != "" {
		conn, err := bus.Dial(client.BusConfig(config, bus.Config{URLs: strings.Split(s.natsServers, ","), Name: "siteoperator", Logger: log}))
		if err != nil {
			return err
		}
		defer conn.Close()
		if config, err = clientgo.Wrap(ctx, config, conn); err != nil {
			return err
		}
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("registering the kinds: %w", err)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer:  webhook.NewServer(webhook.Options{Port: s.port, CertDir: s.certDir}),
		LeaderElection: true, LeaderElectionID: "siteoperator", LeaderElectionNamespace: s.namespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	err = ctrl.NewWebhookManagedBy(manager, &v1.Site{}).WithDefaulter(defaulter{}).
		WithValidator(validator{sites: manager.GetAPIReader()}).Complete()
	if err != nil {
		return fmt.Errorf("creating the webhooks: %w", err)
	}
	err = ctrl.NewControllerManagedBy(manager).For(&v1.Site{}).Owns(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{client: manager.GetClient(), registry: s.registry})
	if err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	return manager.Start(ctx)
}
