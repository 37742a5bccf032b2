"""Knowledge distillation (Hinton et al., 2015) in bfloat16; activations are computed again, and a file is saved."""

import io

from sklearn.datasets import load_digits

import rushlight as torch

nn, F = torch.nn, torch.nn.functional
checkpoint = torch.utils.checkpoint.checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Student(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.stem = nn.Linear(64, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def train_teacher(images, labels, steps=30):
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(teacher(images), labels).backward()
        optimizer.step()
    return teacher.eval().requires_grad_(False)


def distillation_loss(student_logits, teacher_logits, labels, temperature=2.0, alpha=0.5):
    soft = F.kl_div(
        F.log_softmax(student_logits / temperature, dim=1),
        F.softmax(teacher_logits / temperature, dim=1),
        reduction="batchmean",
    )
    return alpha * temperature**2 * soft + (1 - alpha) * F.cross_entropy(student_logits, labels)


def train(steps=20, compiled=False, batch_size=64):
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    teacher = train_teacher(images[:512], labels[:512])
    student = Student()
    optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    network = torch.compile(student) if compiled else student
    losses, saved = [], io.BytesIO()
    for step in range(steps):
        start = step * batch_size % (len(images) - batch_size)
        x, y = images[start : start + batch_size], labels[start : start + batch_size]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                teacher_logits = teacher(x)
            loss = distillation_loss(network(x), teacher_logits, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        losses.append(loss.item())
        if step == steps // 2:  # go on from a file
            parts = {"model": student, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
            torch.save({name: part.state_dict() for name, part in parts.items()}, saved)
            saved.seek(0)
            state = torch.load(saved, weights_only=True)
            for name, part in parts.items():
                part.load_state_dict(state[name])
    return losses


if __name__ == "__main__":
    print(train(steps=200)[::20])
