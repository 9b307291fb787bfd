package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/garboard/garboard/cmd/garboard/internal/doctor"
	"github.com/garboard/garboard/libs/client"
)

func doctorCommand() *cobra.Command {
	var kubeconfig, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check every connection of the plane, and advise on every problem",
		Long: `Check every connection of the plane, and advise on every problem.

The command asks one apiserver, which asks etcd, NATS, and over NATS all other processes. The exit
code is 0 when all is well, 1 for warnings, 2 for failures. Members of system:masters may run it, and
users who may get the nonResourceURL /debug/garboard/status and list leases, nodes and
endpointslices.`,
		Example: `  garboard doctor
  garboard doctor -o json --timeout 5s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("--output %q: give json, or nothing for text", output)
			}
			config, err := client.LoadConfig(kubeconfig)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			findings := doctor.Check(doctor.Gather(ctx, config, version))
			cancel()
			if output == "json" {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(findings)
			} else {
				err = findings.Write(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			if code := findings.ExitCode(); code != 0 {
				os.Exit(code) // The findings have been printed.
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; when empty, the one that kubectl uses")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json; when empty, text")
	cmd.Flags().DurationVar(&timeout, "timeout", 15*time.Second, "maximum time for all checks together")
	return cmd
}
