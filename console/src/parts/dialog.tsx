// A modal dialog: the browser's own keeps the focus in it and closes it with Escape.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './button.tsx';

export function Dialog({
  title,
  isWide = false,
  onClose,
  children,
}: {
  readonly title: string;
  readonly isWide?: boolean;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={isWide ? 'dialog dialog-wide' : 'dialog'}
      aria-labelledby={id}
      onClose={onClose}
      onMouseDown={({ target }) => target === dialog.current && onClose()}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <Button kind="quiet" label="Close" onClick={onClose}>
            ×
          </Button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Asks before something is lost. */
export function Confirm({
  title,
  action,
  onConfirm,
  onClose,
  children,
}: {
  readonly title: string;
  readonly action: string;
  readonly onConfirm: () => unknown;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}) {
  const confirm = (): void => {
    void onConfirm();
    onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="dialog-text">{children}</div>
      <footer class="dialog-foot">
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="danger" onClick={confirm}>
          {action}
        </Button>
      </footer>
    </Dialog>
  );
}
